// A Node service over phases: service.js HOW SIZE... It keeps a table of records by number. In each phase it drops nine in ten
// of the records of the phase before, at random, and makes new ones of another size, until they hold PHASES_MIB.
//
// HOW: buffers (each record a Buffer of its own of exactly that size), or records (an object with strings, an array and a
// Buffer, together about that size; sizes spread by a factor of two to either side).
'use strict';
const fs = require('fs');

const [how, ...sizes] = process.argv.slice(2);
const phaseBytes = Number(process.env.PHASES_MIB || 64) * 1024 * 1024;
const survive = Number(process.env.PHASES_SURVIVE || 0.1);

let seed = 1;
function dice() { // 0 … 1: a linear congruential generator, the same in each run
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 4294967296;
}

function record(number, size) {
    if (how === 'buffers') return [Buffer.alloc(size), size + 200];
    size = Math.round(size * 2 ** (2 * dice() - 1));
    return [{ name: `record ${number}`, words: Array.from({ length: 4 }, (_, i) => `${number}-${i}-`.padEnd(size / 8, 'x')),
        body: Buffer.alloc(size) }, 2 * size + 400];
}

// In turns with the event loop, as a service runs: finalizers of Buffers run there.
const turn = () => new Promise(setImmediate);
const line = Buffer.alloc(16);

async function main() {
    const table = new Map();
    let number = 0, latest = [];
    for (const size of sizes.map(Number)) {
        for (let i = latest.length - 1; i > 0; i--) {
            const j = Math.floor(dice() * (i + 1));
            [latest[i], latest[j]] = [latest[j], latest[i]];
        }
        for (const key of latest.slice(Math.floor(latest.length * survive))) table.delete(key);
        latest = [];
        for (let left = phaseBytes; left > 0; number++) {
            const [made, took] = record(number, size);
            table.set(number, made);
            latest.push(number);
            left -= took;
            if (number % 1000 === 0) await turn();
        }
        await turn();
        fs.writeSync(1, 'phase\n');
        fs.readSync(0, line, 0, 1);
    }
}

main();
