// A small web server that keeps the last documents it was given, and sends them compressed. Its port is the first line that
// it prints.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.zip.GZIPOutputStream;

class Server {
    static final int KEPT = 300;
    static final Map<String, byte[]> kept = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, byte[]> eldest) {
            return size() > KEPT;
        }
    };

    static void answer(HttpExchange exchange, int status, byte[] body) throws IOException {
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    static void put(HttpExchange exchange) throws IOException {
        byte[] body = exchange.getRequestBody().readAllBytes();
        synchronized (kept) {
            kept.remove(exchange.getRequestURI().getPath());
            kept.put(exchange.getRequestURI().getPath(), body);
        }
        answer(exchange, 201, new byte[0]);
    }

    static void get(HttpExchange exchange) throws IOException {
        byte[] body;
        synchronized (kept) {
            body = kept.get(exchange.getRequestURI().getPath());
        }
        if (body == null) {
            answer(exchange, 404, new byte[0]);
            return;
        }
        var packed = new ByteArrayOutputStream();
        try (var stream = new GZIPOutputStream(packed)) {
            stream.write(body);
        }
        answer(exchange, 200, packed.toByteArray());
    }

    // The collector would run some time; here it runs now, so that what is measured does not depend on when.
    static void drop(HttpExchange exchange) throws IOException {
        synchronized (kept) {
            kept.clear();
        }
        System.gc();
        answer(exchange, 200, new byte[0]);
    }

    public static void main(String[] arguments) throws IOException {
        // Asked to end, it ends well and not by the signal.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            switch (exchange.getRequestMethod()) {
                case "PUT" -> put(exchange);
                case "DELETE" -> drop(exchange);
                default -> get(exchange);
            }
        });
        server.start();
        System.out.println(server.getAddress().getPort());
    }
}
