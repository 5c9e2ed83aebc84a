#!/usr/bin/env bash
# Node: worker threads that make and drop buffers, strings, JSON and compressed data, and start other programs.
. "$(dirname "$0")/common.sh"
need node nodejs
active node -e '0'
cat >"$work/work.js" <<'JS'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const zlib = require('zlib'), crypto = require('crypto'), { execFileSync } = require('child_process');
function work(seed) {
  const hash = crypto.createHash('sha256');
  const kept = [];
  for (let i = 0; i < 400; i++) {
    const size = (i * 7919 + seed * 104729) % 90000 + 1;
    const buffer = Buffer.alloc(size, (i + seed) % 251);
    const packed = zlib.deflateSync(buffer);
    if (!zlib.inflateSync(packed).equals(buffer)) throw new Error('zlib ' + i);
    kept[i % 37] = { packed, text: JSON.stringify({ i, list: Array.from({ length: i % 100 }, (_, k) => k) }) };
    hash.update(buffer).update(kept[i % 37].text);
  }
  return hash.digest('hex');
}
if (isMainThread) {
  let left = 6; const results = [];
  for (let n = 0; n < 6; n++) {
    const worker = new Worker(__filename, { workerData: n });
    worker.on('message', (m) => { results[n] = m; });
    worker.on('error', (e) => { console.error(e); process.exit(1); });
    worker.on('exit', () => { if (--left === 0) {
      console.log(results.join('\n'));
      console.log(execFileSync(process.execPath, ['-p', '6*7']).toString());
    } });
  }
} else {
  parentPort.postMessage(work(workerData));
}
JS
same node node "$work/work.js"
