#!/bin/sh
# Makes a bare git repository of 1,200 commits over 300 files. Names and dates are fixed, so that every machine makes
# the same commits, and what git prints about them can be compared. fast-import needs a second where 1,200 commits by
# hand would need a minute.
set -eu

[ -d repository.git ] && exit 0
rm -rf repository.part
git init -q --bare repository.part
awk 'BEGIN {
    srand_state = 12345
    for (commit = 1; commit <= 1200; commit++) {
        printf "commit refs/heads/main\ncommitter A Developer <a@example.org> %d +0000\n", 1000000000 + commit * 3600
        message = "Change number " commit "\n"
        printf "data %d\n%s", length(message), message
        for (k = 0; k < 3; k++) {
            srand_state = (srand_state * 1103515245 + 12345) % 2147483648
            file = srand_state % 300
            body = ""
            for (line = 0; line < 120; line++) {
                body = body "line " line " of file " file " as of " (line % 10 == commit % 10 ? commit : int(file / 7)) " with words enough to be text\n"
            }
            printf "M 100644 inline dir%d/file%d.txt\ndata %d\n%s\n", file % 12, file, length(body), body
        }
        printf "\n"
    }
}' | git -C repository.part fast-import --quiet
mv repository.part repository.git
