#!/bin/sh
# Makes pages.html: a long document of tables, lists and paragraphs, the text of each chapter in longer pieces than that of the
# one before.
set -eu

awk 'BEGIN {
    print "<html><head><style>td { border: 1px solid #999 } .a b { color: #036 } p:nth-child(3n) { margin-left: 2em }</style></head><body>"
    for (chapter = 1; chapter <= 8; chapter++) {
        printf "<h2>Chapter %d</h2>\n", chapter
        words = 2 ^ chapter
        for (row = 0; row < 12000 / words; row++) {
            text = ""
            for (w = 0; w < words; w++) text = text "word" (row * 31 + w * 7) % 997 " "
            printf "<div class=a id=\"c%dr%d\"><p title=\"%s\">%s<b>%s</b></p></div>\n", chapter, row, text, text, row
        }
    }
    print "</body></html>"
}' > pages.html
