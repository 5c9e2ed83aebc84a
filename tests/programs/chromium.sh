#!/usr/bin/env bash
# Chromium without a window: several processes, most of which have an allocator of their own beside ours. The page that its
# script has made must be the one without Freehold.
. "$(dirname "$0")/common.sh"
browser=$(command -v chromium || command -v chromium-headless-shell) || skip "no chromium (package chromium)"
cat >"$work/page.html" <<'HTML'
<html><body><div id="out"></div><script>
const out = document.getElementById("out");
for (let i = 0; i < 3000; i++) {
    const part = document.createElement("p");
    part.textContent = "text " + i + " " + "x".repeat(i % 300);
    out.appendChild(part);
    if (i % 7 === 0 && out.children.length > 5) out.removeChild(out.children[i % out.children.length]);
}
const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
canvas.width = canvas.height = 64;
for (let i = 0; i < 200; i++) { pen.fillStyle = `rgb(${i}, ${255 - i}, 90)`; pen.fillRect(i % 60, (i * 7) % 60, 5, 5); }
document.body.appendChild(document.createElement("pre")).textContent = canvas.toDataURL().length + " " + out.innerHTML.length;
</script></body></html>
HTML
dumped() {
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "--user-data-dir=$work/home.$1" --dump-dom \
        "file://$work/page.html" >"$work/page.$1" 2>"$work/log.$1"
}
dumped without || { tail -n 3 "$work/log.without"; skip "chromium does not run here"; }
grep -q '<pre>[0-9]' "$work/page.without" || skip "chromium draws nothing here"
(export LD_PRELOAD=$library FREEHOLD=verbose=1; dumped with) || { tail -n 20 "$work/log.with"; die "chromium fails"; }
grep -q 'freehold: version .* is active' "$work/log.with" || die "Freehold is not active in chromium"
cmp "$work/page.without" "$work/page.with" || die "the pages differ"
say "same page: $(wc -c <"$work/page.with") bytes"
