#!/usr/bin/env bash
# LibreOffice converts documents and tables there and back. The text that comes out must be the text without Freehold.
. "$(dirname "$0")/common.sh"
office=$(command -v soffice || command -v libreoffice) || skip "no soffice (package libreoffice-writer-nogui)"
need python3 python3
# The program behind the script.
program=$(dirname "$(readlink -f "$office")")/soffice.bin
[ -x "$program" ] || skip "no soffice.bin beside $office"
active "$program" --headless --version
python3 - "$work" <<'PY'
import sys

with open(f"{sys.argv[1]}/text.html", "w", encoding="utf-8") as file:
    file.write("<html><body>")
    for i in range(400):
        file.write(f"<h2>Part {i}</h2><p>{'word ' * (i % 90)}<b>bold {i}</b></p><table><tr>"
                   + "".join(f"<td>{i * k}</td>" for k in range(6)) + "</tr></table>")
    file.write("</body></html>")
with open(f"{sys.argv[1]}/table.csv", "w", encoding="utf-8") as file:
    for i in range(3000):
        file.write(f"{i},{i * i % 97},text {i},=A{i + 1}*2,=SUM(B1:B{i % 50 + 1})\n")
PY
converted() {
    local side=$1
    mkdir -p "$work/$side"
    [ "$side" = without ] || export LD_PRELOAD=$library
    # convert FORMAT FILE
    convert() {
        timeout 300 "$office" "-env:UserInstallation=file://$work/home.$side" --headless --norestore \
            --convert-to "$1" --outdir "$work/$side" "$2"
    }
    convert odt:writer8 "$work/text.html" && convert txt:Text "$work/$side/text.odt" && convert xlsx "$work/table.csv" &&
        convert csv "$work/$side/table.xlsx" && convert pdf "$work/$side/text.odt"
}
(converted without) >"$work/log.without" 2>&1 || { tail -n 5 "$work/log.without"; skip "soffice does not convert here"; }
(converted with) >"$work/log.with" 2>&1 || { tail -n 20 "$work/log.with"; die "soffice does not convert"; }
for name in text.txt table.csv; do
    [ -s "$work/without/$name" ] || skip "soffice writes no $name here"
    cmp "$work/without/$name" "$work/with/$name" || die "$name differs"
    say "same text: $name ($(wc -c <"$work/with/$name") bytes)"
done
[ -s "$work/with/text.pdf" ] || die "no text.pdf"
