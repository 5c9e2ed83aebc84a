-- Tables, closures and strings: every one of them is a malloc in lua, which has no allocator of its own.
local sum = 0
for round = 1, 4 do
  local items = {}
  for i = 1, 150000 do
    items[i] = { id = i, name = "item" .. (i * 7919 % 10007), f = function() return i + round end }
  end
  local byname = {}
  for _, item in ipairs(items) do
    local list = byname[item.name]
    if not list then
      list = {}
      byname[item.name] = list
    end
    list[#list + 1] = item
  end
  local parts = {}
  for name, list in pairs(byname) do
    for _, item in ipairs(list) do
      sum = (sum + item.f() * #name) % 1000000007
    end
    parts[#parts + 1] = name
  end
  table.sort(parts)
  local text = table.concat(parts, ",")
  for word in text:gmatch("[^,]+") do
    sum = (sum * 31 + #word:upper()) % 1000000007
  end
end
print(sum)
