# frozen_string_literal: true

require_relative "harness"

# What a Rack application gets and may return; Rack::Lint, Sinatra and rackup are real ones.
class RackTest < PipeTest
  ENVIRONMENT = <<~RUBY
    require "uri" # Rack::Lint forgets it
    require "rack"
    Pilotlight.serve(Rack::Lint.new(lambda do |env|
      body = env["rack.input"].read
      env["rack.input"].rewind
      shown = env.select { |key, value| value.is_a?(String) }.merge("again" => env["rack.input"].read, "body" => body)
      [200, { "Content-Type" => "text/plain" }, [shown.inspect]]
    end))
  RUBY

  def shown(peer)
    eval(peer.answer[1]) # what `inspect` wrote
  end

  def test_the_environment_by_rack_lint
    shared = serve(ENVIRONMENT)
    fields = [%w[content-type text/x], %w[content-length 3], %w[x-a 1], %w[x-a 2], %w[cookie a=1], %w[cookie b=2],
              %w[x_a bad], ["accept", "*/*"]]
    shared.send(request(1, "/a%20b/c?d=%20e", method: "POST", fields: fields, body: "h\xffi"))
    env = shown(accept) # Rack::Lint hides that the body is an array: a stream
    expected = { "REQUEST_METHOD" => "POST", "PATH_INFO" => "/a%20b/c", "QUERY_STRING" => "d=%20e", "SCRIPT_NAME" => "",
                 "SERVER_NAME" => "demo.test", "SERVER_PORT" => "8080", "SERVER_PROTOCOL" => "HTTP/1.1",
                 "HTTP_HOST" => "demo.test:8080", "REMOTE_ADDR" => "127.0.0.1", "CONTENT_TYPE" => "text/x",
                 "CONTENT_LENGTH" => "3", "HTTP_X_A" => "1, 2", "HTTP_COOKIE" => "a=1; b=2", "rack.url_scheme" => "http",
                 "body" => "h\xffi".b, "again" => "h\xffi".b }
    assert_equal expected, env.slice(*expected.keys)
    refute(env.keys.any? { |key| key.include?("CONTENT_TYPE") && key.start_with?("HTTP") })
  end

  def test_a_streamed_body_by_rack_lint_can_be_rewound
    own = own(serve(ENVIRONMENT))
    own.send(request(1, method: "PUT", flags: 0, body: "one "), frame(6, 0, 1, "two "), frame(6, 1, 1, "three"))
    env = shown(own)
    assert_equal ["one two three"] * 2, env.values_at("body", "again")
  end

  def test_a_streamed_body_is_read_as_it_comes
    shared = serve(<<~RUBY)
      Pilotlight.serve do |env|
        input = env["rack.input"]
        body = Enumerator.new do |out|
          out << "first \#{input.gets.inspect} "
          out << [input.read(2), input.read(1, +"x"), input.enum_for(:each).to_a, input.read(1), input.read].inspect
        end
        [200, {}, body]
      end
    RUBY
    own = own(shared)
    own.send(request(1, method: "PUT", flags: 0, body: "line\n"))
    assert_equal 'first "line\n" ', own.next.body # though the body has not ended
    own.send(frame(6, 0, 1, "ab"), frame(6, 0, 1, "cde\nf"), frame(6, 0, 1, "g\n"), frame(6, 1, 1, "h"))
    assert_equal '["ab", "c", ["de\n", "fg\n", "h"], nil, ""]', own.next.payload
  end

  def test_headers_of_rack_2_and_3
    shared = serve(<<~RUBY)
      Pilotlight.serve do |env|
        [200, { "Set-Cookie" => "a=1\\nb=2", "x-list" => %w[1 2], "X-Number" => 3, "Connection" => "x-hop", "x-hop" => "1",
                "Transfer-Encoding" => "chunked", "x-text" => "ä" }, ["ä", "\\xff"]]
      end
    RUBY
    shared.send(request(1))
    answer = shared.next
    pairs = [%w[set-cookie a=1], %w[set-cookie b=2], %w[x-list 1], %w[x-list 2], %w[x-number 3], ["x-text", "ä".b]]
    assert_equal pairs, answer.fields
    assert_equal "ä\xff".b, answer.body
  end

  def test_what_cannot_be_sent_is_the_applications_fault
    shared = serve(<<~RUBY)
      answers = { "/cr" => [200, { "x" => "a\\rb" }, []], "/zero" => [200, { "x" => "a\\0b" }, []], "/status" => [99, {}, []],
                  "/long" => [200, { "x" => "x" * 66_000 }, []], "/raise" => nil }
      Pilotlight.serve { |env| answers.fetch(env["PATH_INFO"]) }
    RUBY
    %w[/cr /zero /status /long /raise /unknown].each do |path|
      shared.send(request(1, path))
      final = shared.next
      assert_equal [RESET, INTERNAL], [final.kind, final.code], path
    end
    assert_match(/P-8: a zero byte, CR or LF/, said)
    assert_match(/KeyError/, said)
  end

  def test_no_body_for_head_and_204_and_every_body_is_closed
    shared = serve(<<~RUBY)
      Body = Struct.new(:closed) do
        def each = yield("text")
        def close = $closed = $closed.to_i + 1
      end
      Pilotlight.serve do |env|
        env["PATH_INFO"] == "/closed" ? [200, {}, [$closed.to_s]] : [env["PATH_INFO"][1..].to_i, { "content-length" => "4" }, Body.new]
      end
    RUBY
    shared.send(request(1, "/200", method: "HEAD"), request(2, "/204"), request(3, "/304"), request(4, "/200"))
    assert_equal ["", "", "", "text"], Array.new(4) { shared.next }.sort_by(&:exchange).map(&:body)
    shared.send(request(1, "/closed"))
    assert_equal "4", shared.next.body
  end

  def test_sinatra
    shared = serve(<<~RUBY)
      require "sinatra/base"
      class App < Sinatra::Base
        set :environment, :production
        get("/hi/:name") { "hi \#{params[:name]}" }
        post("/form") { params["file"] ? params["file"][:tempfile].read : params["a"].inspect }
        get("/stream") { stream { |out| 3.times { |i| out << i.to_s } } }
        get("/fail") { raise "no" }
      end
      Pilotlight.serve(App)
    RUBY
    shared.send(request(1, "/hi/you%20all"))
    assert_equal "hi you all", shared.next.body
    form = { "content-type" => "application/x-www-form-urlencoded", "content-length" => "7" }
    shared.send(request(1, "/form", method: "POST", fields: form, body: "a=b%20c"))
    assert_equal '"b c"', shared.next.body
    multipart = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nbytes\r\n--x--\r\n"
    form = { "content-type" => "multipart/form-data; boundary=x", "content-length" => multipart.bytesize.to_s }
    own = own(shared)
    own.send(request(1, "/form", method: "POST", fields: form, flags: 0, body: multipart[0, 30]), frame(6, 1, 1, multipart[30..]))
    assert_equal "bytes", own.next.body
    own.send(request(2, "/stream"))
    assert_equal "012", own.answer[1]
    own.send(request(3, "/fail"))
    assert_equal 500, own.next.status
  end

  def test_pilotlight_rackup
    File.write(File.join(@folder, "config.ru"), "require 'uri'\nuse Rack::Lint\nrun ->(env) { [200, { 'Content-Type' => 'text/plain' }, ['ru']] }\n")
    shared = serve(nil, File.expand_path("../exe/pilotlight-rackup", __dir__), "--threads", "2", "--exchanges", "7")
    assert_includes shared.hello, "exchanges=7\n"
    shared.send(request(1))
    assert_equal "ru", accept.answer[1]
    Process.kill(:TERM, @pid)
    assert_equal DRAIN, shared.next.kind
    shared.send(frame(DRAIN, 0, 0, [1000].pack("V")))
    assert_equal 0, exit_status
  end

  def test_racks_own_rackup
    File.write(File.join(@folder, "config.ru"), "run ->(env) { [200, {}, ['ru']] }\n")
    words = ["-r", "rack", "-e", 'ARGV.replace(%w[-E none -r pilotlight/handler -s pilotlight -O max_own=3]); Rack::Server.start']
    shared = serve(nil, *words)
    assert_includes shared.hello, "max_own=3\n"
    shared.send(request(1))
    assert_equal "ru", shared.next.body
  end

  def test_run_by_hand
    _, text, status = Open3.capture3("ruby", "-I", LIB, "-r", "pilotlight", "-e", "Pilotlight.serve { }")
    assert_equal 2, status.exitstatus
    assert_match(/The gateway starts this program/, text)
  end
end

require "open3"
exit Minitest.run(ARGV) if $PROGRAM_NAME == __FILE__
