# Shared by the tests of servers, after common.sh. A server runs on loopback, once without Freehold and once with it, and
# clients write down what it answers: both must be the same. It is ended by its number, and the test is over when it is.

server=
end_server() {
    [ -n "$server" ] || return 0
    kill "-${1:-TERM}" "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}
trap 'end_server KILL' EXIT

# start PRELOAD LOG COMMAND...: in the background; its number is $server. PRELOAD may be empty.
start() {
    local preload=$1 log=$2
    shift 2
    LD_PRELOAD=$preload "$@" >"$log" 2>&1 </dev/null &
    server=$!
}

# until_ready LOG COMMAND...: waits until the command succeeds; the server must live until then.
until_ready() {
    local log=$1
    shift
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 40 "$log"
    die "the server did not start"
}

# in_server: Freehold is in the server, and in the processes that it has started and that do not just end.
in_server() {
    local process
    for process in "$server" $(children "$server"); do
        has_library "$process" || sleep 1
        has_library "$process" || [ ! -s "/proc/$process/cmdline" ] ||
            die "Freehold is not in process $process of the server"
    done
    say "active in: $(tr '\0' ' ' <"/proc/$server/cmdline" | cut -c1-40) and $(children "$server" | wc -w) children"
}
has_library() { grep -q libfreehold "/proc/$1/maps" 2>/dev/null; }

children() { cat "/proc/$1/task/"*/children 2>/dev/null || true; }

# A port of loopback that is free now. The kernel does not give it to others for a while.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# same_answers NAME: what was written to NAME.without and NAME.with.
same_answers() {
    [ -s "$work/$1.without" ] || die "$1: no answers without Freehold"
    cmp "$work/$1.without" "$work/$1.with" || die "$1: other answers"
    say "same answers: $1 ($(wc -l <"$work/$1.with") lines)"
}
