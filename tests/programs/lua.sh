#!/usr/bin/env bash
# Lua, whose allocator is one realloc function: tables, strings and coroutines come and go.
. "$(dirname "$0")/common.sh"
need lua5.4 lua5.4
active lua5.4 -v
cat >"$work/work.lua" <<'LUA'
local seed = 7
local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648; return (seed >> 8) % n end
local live, sum = {}, 0
for i = 1, 400000 do
    local at = random(20000)
    local old = live[at]
    if old then sum = (sum + #old.text + (old.parts and #old.parts or 0)) % 1000000007 end
    live[at] = {text = ("x"):rep(random(300)) .. i, parts = random(4) == 0 and {i, i + 1, i + 2} or nil}
end
for i = 1, 2000 do
    local co = coroutine.wrap(function(a) while true do a = coroutine.yield(a .. "y") end end)
    local s = ""
    for _ = 1, 20 do s = co(s) end
    sum = sum + #s
end
local pieces = {}
for i = 1, 50000 do pieces[#pieces + 1] = tostring(i) end
sum = sum + #table.concat(pieces, ",")
table.sort(pieces)
collectgarbage()
print(sum, pieces[1], pieces[#pieces])
LUA
same lua lua5.4 "$work/work.lua"
