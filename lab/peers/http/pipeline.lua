-- wrk -s pipeline.lua URL -- DEPTH: DEPTH requests in one write; the last line printed is JSON, times in microseconds
init = function(arguments)
  local requests = {}
  for i = 1, tonumber(arguments[1] or "1") do requests[i] = wrk.format("GET") end
  batch = table.concat(requests)
end
request = function() return batch end
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('{"rps":%.1f,"n":%d,"p50":%.1f,"p99":%.1f,"max":%.1f,"errors":%d}\n',
    summary.requests / (summary.duration / 1e6), summary.requests, latency:percentile(50), latency:percentile(99), latency.max,
    e.connect + e.read + e.write + e.timeout + e.status))
end
