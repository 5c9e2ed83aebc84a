// A small web server that keeps the last documents it was given, and sends them compressed. Its port is the first line that
// it prints.
const http = require('http'), zlib = require('zlib');

const KEPT = 300;
const kept = new Map();

function answer(response, status, body) {
  response.writeHead(status, { 'Content-Length': body.length });
  response.end(body);
}

function put(request, response) {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    kept.delete(request.url);
    kept.set(request.url, Buffer.concat(parts));
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    answer(response, 201, '');
  });
}

function get(request, response) {
  const body = kept.get(request.url);
  if (body === undefined) return answer(response, 404, '');
  zlib.gzip(body, (error, packed) => answer(response, error ? 500 : 200, error ? '' : packed));
}

// The collector would run some time; here it runs now, so that what is measured does not depend on when.
function drop(request, response) {
  kept.clear();
  if (global.gc) global.gc();
  answer(response, 200, '');
}

const server = http.createServer((request, response) => {
  const handlers = { PUT: put, GET: get, DELETE: drop };
  (handlers[request.method] || get)(request, response);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
