# frozen_string_literal: true

require_relative "harness"

# Threads, batches, streams, cancel and other protocols: what the transcripts of sdk/conformance do not see.
class PipeRulesTest < PipeTest
  def test_a_batch_costs_one_read_and_one_write
    shared = serve(<<~RUBY)
      $reads = $writes = 0
      module Count
        def read_nonblock(*, **) = super.tap { |data| $reads += 1 if data.is_a?(String) }
        def write_nonblock(*, **) = super.tap { $writes += 1 }
      end
      UNIXSocket.prepend(Count)
      Pilotlight.serve { |env| [200, {}, ["\#{$reads} \#{$writes}"]] }
    RUBY
    # On a busy machine a handler may look as if it blocked, and others answer for some time: not every batch is whole.
    eventually("the batch, and one for each of the two beside it") do
      before = counts(shared)
      shared.send(*(1..50).map { |exchange| request(exchange) })
      assert_equal [*1..50], Array.new(50) { shared.next.exchange }.sort
      counts(shared) == before.map { |count| count + 2 }
    end
  end

  def counts(shared)
    shared.send(request(99))
    shared.next.body.split.map(&:to_i)
  end

  def test_a_handler_that_blocks_keeps_nobody_waiting
    shared = serve(<<~RUBY)
      gate = Queue.new
      Pilotlight.serve(threads: 3) do |env|
        env["PATH_INFO"] == "/open" ? 2.times { gate << nil } : gate.pop
        [200, {}, []]
      end
    RUBY
    shared.send(request(1), request(2), request(3, "/open"))
    assert_equal [1, 2, 3], Array.new(3) { shared.next.exchange }.sort
  end

  def test_at_the_limit_of_threads_what_is_finished_leaves
    shared = serve(<<~RUBY)
      Pilotlight.serve(threads: 1) { |env| env["PATH_INFO"] == "/block" && sleep; [200, {}, ["quick"]] }
    RUBY
    shared.send(request(1), request(2, "/block"))
    assert_equal "quick", shared.next.body
  end

  def test_a_cancel_ends_the_body_and_closes_it
    shared = serve(<<~RUBY)
      class Ticks
        def each = loop { yield "tick"; sleep 0.01 }
        def close = $closed = true
      end
      Pilotlight.serve { |env| env["PATH_INFO"] == "/closed" ? [200, {}, [$closed.inspect]] : [200, {}, Ticks.new] }
    RUBY
    shared.send(request(1))
    answers = accept
    assert_equal "tick", answers.next.body
    shared.send(frame(RESET, 0, 1, [CANCELLED, 0, 0].pack("vvV")))
    _, _, last = answers.answer
    assert_equal [RESET, CANCELLED], [last.kind, last.code]
    eventually("closed") { shared.send(request(2, "/closed")) || shared.next.body == "true" }
  end

  def test_streams_both_ways_at_once
    shared = serve(<<~RUBY)
      echo = ->(stream) { while (piece = stream.read(3)) do stream << piece end; stream.close }
      both = ->(stream) { Thread.new { stream.write("a", "b"); stream.close } }
      Pilotlight.serve { |env| env["PATH_INFO"] == "/partial" ? [200, { "rack.hijack" => both }, []] : [200, {}, echo] }
    RUBY
    own = own(shared)
    own.send(request(1, method: "PUT", flags: 0, body: "abc"))
    assert_equal "abc", own.next.body
    own.send(frame(DATA, 1, 1, "defg"))
    assert_equal %w[def g], [own.next.payload, own.next.payload]
    assert own.next.end?
    own.send(request(2, "/partial"))
    assert_equal "ab", own.answer[1] # Rack's partial hijack ends when it is closed
  end

  def test_refusals_and_what_they_say
    shared = serve(<<~RUBY)
      errors = { "/r" => Pilotlight::Refused, "/l" => Pilotlight::TooLarge, "/o" => Pilotlight::Overloaded.new("full", retry_after: 2) }
      Pilotlight.serve { |env| raise errors[env["PATH_INFO"]] }
    RUBY
    shared.send(request(1, "/r"), request(2, "/l"), request(3, "/o"))
    finals = Array.new(3) { shared.next }.sort_by(&:exchange)
    assert_equal [REFUSED, TOO_LARGE, OVERLOADED], finals.map(&:code)
    assert_equal [2000, "full"], [finals[2].payload.unpack("vvV")[2], finals[2].payload[8..]]
    assert_empty said
  end

  def test_early_hints_a_log_line_and_trailers
    shared = serve(<<~RUBY)
      Pilotlight.serve do |env|
        request = env["pilotlight.request"]
        env["rack.early_hints"].call("link" => "</a.css>")
        request.log("said", :warn)
        request.trailers["x-sum"] = "1"
        [200, { "trailer" => "x-sum" }, ["\#{request.deadline.round} \#{request.id}"]]
      end
    RUBY
    shared.send(request(1, deadline: 5000))
    answers = accept
    hints, line = answers.next, answers.next
    assert_equal [INFO, 103, [["link", "</a.css>"]]], [hints.kind, hints.status, hints.fields]
    assert_equal [LOG, "\x02said"], [line.kind, line.payload]
    _, body, last = answers.answer
    assert_equal ["5 r-1", TRAILERS, "x-sum\x001\x00"], [body, last.kind, last.payload]
  end

  def test_finished_requests_are_told
    shared = serve(<<~RUBY)
      $done = []
      Pilotlight.serve do |env|
        env["rack.response_finished"] << ->(_, status, _, error) { $done << [status, error.class] }
        raise "no" if env["PATH_INFO"] == "/no"
        [200, {}, [$done.inspect]]
      end
    RUBY
    shared.send(request(1))
    shared.next
    shared.send(request(1, "/no"))
    shared.next
    eventually("told") { shared.send(request(1)) || shared.next.body.start_with?("[[200, NilClass], [nil, RuntimeError]") }
  end

  UPGRADE = { "upgrade" => "websocket", "sec-websocket-key" => "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version" => "13" }.freeze

  def test_a_websocket_of_a_library_that_hijacks
    own = own(serve(nil, File.expand_path("../demo.rb", __dir__)))
    own.send(request(1, "/ws", fields: UPGRADE, flags: 3))
    answer = own.next
    assert_equal [RESPONSE, 2, 101], [answer.kind, answer.flags, answer.status]
    assert_equal "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", answer.field("sec-websocket-accept") # RFC 6455 §1.3
    assert_equal "websocket", answer.field("upgrade")
    own.io.write(["8182000000006869"].pack("H*"), ["8182000000006869"].pack("H*"))
    assert_equal ["81026869"].pack("H*") * 2, own.io.read(8)
    @peers[0].send(frame(DRAIN, 0, 0, [5000].pack("V")))
    assert_equal ["880c03e9676f696e672061776179"].pack("H*"), own.io.read(14) # P-43
    own.io.write(["8882000000000" "3e9"].pack("H*"))
    assert_equal 0, exit_status
  end

  def test_a_hijack_that_declines_and_one_without_an_offer
    shared = serve(<<~RUBY)
      Pilotlight.serve do |env|
        io = env["rack.hijack"].call
        io.write("HTTP/1.1 403 Forbidden\\r\\nX-A: ", "b\\r\\n\\r\\nno")
      end
    RUBY
    own = own(shared)
    own.send(request(1, fields: UPGRADE, flags: 3))
    answer = own.next
    assert_equal [403, [%w[x-a b]], "no", true], [answer.status, answer.fields, answer.body, answer.end?]
    assert_nil own.next
    shared.send(request(2))
    assert_equal INTERNAL, shared.next.code
    assert_match(/cannot be hijacked/, said)
  end

  def test_other_protocols_by_rack_3_and_their_limit
    shared = serve(<<~RUBY)
      Pilotlight.serve(max_upgraded: 1) do |env|
        [101, { "rack.protocol" => env["rack.protocol"][1] }, ->(io) { io.write(io.readpartial(9)); io.read; io.close }]
      end
    RUBY
    own, other = own(shared), own(shared)
    own.send(request(1, fields: { "upgrade" => "one, two" }, flags: 3))
    assert_equal [101, "two"], own.next.then { |answer| [answer.status, answer.field("upgrade")] }
    own.io.write("bytes")
    assert_equal "bytes", own.io.read(5)
    other.send(request(1, fields: { "upgrade" => "one, two" }, flags: 3))
    assert_equal [RESET, OVERLOADED], other.next.then { |final| [final.kind, final.code] } # P-42
    own.io.close_write
    assert_nil own.next
    eventually("room again") do
      other.send(request(1, fields: { "upgrade" => "one, two" }, flags: 3))
      other.next.kind == RESPONSE
    end
  end

  def test_max_own
    shared = serve("Pilotlight.serve(max_own: 2) { [200, {}, []] }")
    assert_includes shared.hello, "max_own=2\n"
    shared.send(frame(MORE, 0, 0, [1, 9, 0].pack("vvV")), frame(PING, 0, 0, "12345678"))
    assert_equal PONG, shared.next.kind
    2.times { accept }
    refute @listener.wait_readable(0.1)
  end

  def test_wrong_arguments
    { "Pilotlight.serve(threads: 0) { }" => /threads/, "Pilotlight.serve(1)" => /no Rack application/ }.each do |source, text|
      serve(source, accept: false)
      assert_equal 1, exit_status
      assert_match text, said
    end
  end

  def test_a_refused_instance
    serve("Pilotlight.serve { }", accept: false)
    peer = Peer.new(@listener.accept)
    peer.send(frame(RESET, 0, 0, [PROTOCOL, 0, 0].pack("vvV") << "the token is wrong"))
    assert_equal 1, exit_status
    assert_match(/the token is wrong/, said)
    peer.io.close
  end
end

exit Minitest.run(ARGV) if $PROGRAM_NAME == __FILE__
