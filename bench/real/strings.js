// A JSON and string workload for node: objects come from its own heap, but strings, buffers and the compiler's own
// memory come from malloc.
"use strict";
let sum = 0;
for (let round = 0; round < 6; round++) {
  const rows = [];
  for (let i = 0; i < 30000; i++) rows.push({ id: i, name: "row " + (i * 7919 % 10007), tags: ["a" + i % 13, "b" + i % 17], text: "x".repeat(i % 90) });
  const text = JSON.stringify(rows);
  const back = JSON.parse(text);
  const buffers = back.filter(row => row.id % 3 === round % 3).map(row => Buffer.from(row.name + row.text));
  const joined = Buffer.concat(buffers).toString("base64");
  const words = text.replace(/[^a-z0-9]+/g, " ").split(" ");
  const counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) || 0) + 1);
  sum = (sum * 31 + joined.length + counts.size + words.length) % 1000000007;
}
console.log(sum);
