# A small web server that keeps the last bodies it was given. Its port is the first line that it prints.
require 'socket'

KEPT = 300
KEPT_BODIES = {}
LOCK = Mutex.new

def answer(socket, status, body = '')
  socket.write("HTTP/1.1 #{status}\r\nContent-Length: #{body.bytesize}\r\n\r\n", body)
end

def put(socket, path, length)
  body = socket.read(length)
  LOCK.synchronize do
    KEPT_BODIES.delete(path)
    KEPT_BODIES[path] = body
    KEPT_BODIES.shift if KEPT_BODIES.size > KEPT
  end
  answer(socket, '201 Created')
end

def get(socket, path)
  body = LOCK.synchronize { KEPT_BODIES[path] }
  body ? answer(socket, '200 OK', body) : answer(socket, '404 Not Found')
end

# The collector would run some time; here it runs now, so that what is measured does not depend on when.
def drop(socket)
  LOCK.synchronize { KEPT_BODIES.clear }
  GC.start
  answer(socket, '200 OK')
end

def serve(socket)
  while (request = socket.gets)
    method, path, = request.split
    length = 0
    while (line = socket.gets) && line != "\r\n"
      length = line[15..].to_i if line.downcase.start_with?('content-length:')
    end
    case method
    when 'PUT' then put(socket, path, length)
    when 'DELETE' then drop(socket)
    else get(socket, path)
    end
  end
ensure
  socket.close
end

trap('TERM') { exit!(0) }
server = TCPServer.new('127.0.0.1', 0)
puts server.addr[1]
$stdout.flush
loop do
  socket = server.accept
  socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
  Thread.new { serve(socket) }
end
