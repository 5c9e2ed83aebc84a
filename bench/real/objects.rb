# Objects, strings, hashes and arrays: ruby keeps slots of its own, and takes the rest from malloc.
rounds = Integer(ARGV[0])
sum = 0
rounds.times do |round|
  words = Array.new(120_000) { |i| "word#{i * 7919 % 10_007}-#{round}" * (1 + i % 4) }
  groups = words.group_by { |word| word[0, 6] }
  groups.each_value { |list| sum = (sum + list.sum(&:size)) % 1_000_000_007 }
  text = words.each_slice(50).map { |slice| slice.join(",") }.join("\n")
  fields = text.split("\n").map { |line| line.split(",") }
  counts = Hash.new(0)
  fields.each { |line| line.each { |field| counts[field.upcase] += 1 } }
  table = counts.sort_by { |word, count| [-count, word] }
  sum = (sum * 31 + table.first(1000).inspect.size) % 1_000_000_007
  number = (1..400).inject(1) { |product, i| product * (i * 1_000_003 + round) }
  sum = (sum + number.to_s.size) % 1_000_000_007
end
puts sum
