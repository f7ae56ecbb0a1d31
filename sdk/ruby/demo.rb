# frozen_string_literal: true

# The demo service that every SDK has; sdk/conformance drives it. Start it as a service of the gateway.
require_relative "lib/pilotlight"

# A Rack application. It lists what it answers in `ROUTES`.
class Demo
  TEXT = { "content-type" => "text/plain" }.freeze
  JSON = { "content-type" => "application/json" }.freeze
  BLOCK = (Array.new(251) { |i| (i * 31 + 7) % 251 } * 256).pack("C*").freeze # byte i repeats after 251
  ROUTES = {
    "GET /download" => :download, "GET /slow" => :slow, "GET /wait" => :wait, "GET /cancelled" => :cancelled,
    "GET /crash" => :crash, "GET /flood" => :flood, "GET /status" => :status, "GET /cookies" => :cookies,
    "GET /sleep" => :nap, "GET /deadline" => :deadline, "GET /pid" => :pid, "GET /trailers" => :trailers,
    "GET /error" => :error, "GET /refuse" => :refuse, "GET /switch" => :switch, "GET /ws" => :web_socket,
    "GET /big-header" => :big_header, "POST /upload" => :upload, "POST /early" => :early
  }.freeze

  def initialize
    @cancelled, @seen = {}, {}
  end

  def call(env)
    return echo(env) if env["PATH_INFO"].start_with?("/echo")

    method = env["REQUEST_METHOD"] == "HEAD" ? "GET" : env["REQUEST_METHOD"]
    route = ROUTES["#{method} #{env['PATH_INFO']}"]
    return [404, TEXT, ["not found\n"]] unless route

    query = env["QUERY_STRING"].split("&").to_h { |pair| [*pair.split("=", 2), ""].first(2) }
    __send__(route, env, query)
  end

  private

  def echo(env)
    request = env["pilotlight.request"]
    headers = { "content-type" => env["CONTENT_TYPE"] || "application/octet-stream",
                "x-method" => env["REQUEST_METHOD"], "x-target" => request.target }
    echoed = request.fields.each_slice(2).select { |name, _| name.start_with?("x-echo-") }
    echoed.group_by(&:first).each { |name, pairs| headers[name] = pairs.map(&:last) }
    [200, headers, [env["rack.input"].read]]
  end

  def upload(env, _query)
    require "digest"
    total, digest, input = 0, Digest::SHA256.new, env["rack.input"]
    while (piece = input.read(65_536))
      total += piece.bytesize
      digest << piece
    end
    [200, JSON, [%({"bytes":#{total},"sha256":"#{digest.hexdigest}"})]]
  end

  def download(_env, query)
    size = Integer(query["bytes"])
    blocks = Enumerator.new do |out|
      0.step(size - 1, BLOCK.bytesize) { |start| out << BLOCK.byteslice(0, size - start) }
    end
    [200, { "content-type" => "application/octet-stream", "content-length" => size.to_s }, blocks]
  end

  def slow(_env, query)
    lines = Enumerator.new do |out|
      Integer(query["chunks"]).times do |number|
        sleep Integer(query["ms"]) / 1000.0 if number.positive?
        out << "chunk #{number}\n"
      end
    end
    [200, TEXT, lines]
  end

  def wait(_env, query)
    ticks = lambda do |stream|
      loop do
        stream << "tick\n"
        sleep 0.02
      end
    ensure
      @cancelled[query["id"]] = true
    end
    [200, TEXT, ticks]
  end

  def cancelled(_env, query)
    [200, JSON, [%({"cancelled":#{@cancelled.key?(query['id'])}})]]
  end

  def crash(*)
    exit!(3)
  end

  def flood(_env, query)
    size, block = Integer(query["bytes"]), "#{'f' * 99}\n" * 600
    0.step(size - 1, block.bytesize) { |start| $stdout.write(block.byteslice(0, size - start)) }
    [200, JSON, [%({"flooded":#{size}})]]
  end

  def status(_env, query)
    [Integer(query["code"]), TEXT, []]
  end

  def cookies(*)
    [200, { "set-cookie" => %w[a=1 b=2] }, []]
  end

  def nap(_env, query)
    sleep Integer(query["ms"]) / 1000.0
    [200, TEXT, ["slept"]]
  end

  def deadline(env, _query)
    left = env["pilotlight.request"].deadline
    [200, JSON, [%({"deadline_ms":#{left ? (left * 1000).to_i : 'null'}})]]
  end

  def pid(*)
    [200, JSON, [%({"pid":#{Process.pid}})]]
  end

  def early(*)
    [413, TEXT, ["too large\n"]]
  end

  def trailers(env, _query)
    env["pilotlight.request"].trailers["x-trailer"] = "yes"
    [200, { **TEXT, "trailer" => "x-trailer" }, ["body"]]
  end

  def error(*)
    raise "as asked"
  end

  def refuse(env, _query)
    once, known = env.fetch("HTTP_X_ONCE", ""), @seen.dup
    @seen[once] = true
    raise Pilotlight::Refused, "the first time" unless known.key?(once)

    [200, TEXT, ["taken"]]
  end

  # Switches to what is offered first, whatever that is, and sends back the bytes that come.
  def switch(env, _query)
    protocol = env.fetch("rack.protocol", []).first
    return [426, TEXT, ["upgrade required\n"]] unless protocol

    io = env["pilotlight.request"].upgrade(protocol)
    IO.copy_stream(io, io)
    io.close
  end

  # A WebSocket that sends every message back, by the gem `websocket-driver`, which hijacks.
  def web_socket(env, _query)
    require "websocket/driver"
    return [426, TEXT, ["upgrade required\n"]] unless WebSocket::Driver.websocket?(env)

    echo = Echo.new(env)
    Thread.new { echo.run }
    [-1, {}, []]
  rescue LoadError
    [501, TEXT, ["the gem websocket-driver is not installed\n"]]
  end

  def big_header(_env, query)
    [200, { "x-big" => "x" * Integer(query["bytes"]) }, []]
  end

  # One WebSocket.
  class Echo
    attr_reader :env

    def initialize(env)
      @env, @io = env, env["rack.hijack"].call
      @driver = WebSocket::Driver.rack(self, max_length: 64 << 20)
      @driver.on(:message) { |event| event.data.is_a?(String) ? @driver.text(event.data) : @driver.binary(event.data) }
      @driver.on(:close) { @io.close }
      env["pilotlight.request"].on_drain { @driver.close("going away", 1001) }
    end

    def url = "ws://#{env['HTTP_HOST']}#{env['PATH_INFO']}"

    def write(bytes)
      @io.write(bytes)
    end

    def run
      @driver.start
      @driver.parse(@io.readpartial(65_536)) until @io.closed?
    rescue IOError, SystemCallError
      @io.close
    end
  end
end

Pilotlight.serve(Demo.new) if $PROGRAM_NAME == __FILE__
