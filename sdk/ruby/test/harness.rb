# frozen_string_literal: true

# The gateway's side of Pipe/1 for the tests: a real Unix socket, real processes, every wait bounded.
require "fileutils"
require "minitest"
require "socket"
require "timeout"
require "tmpdir"

LIB = File.expand_path("../lib", __dir__)
$LOAD_PATH.unshift(LIB)
require "pilotlight"

LIMIT = 20 # seconds

# One line for each test, as scripts/test.py reads it.
class Lines < Minitest::StatisticsReporter
  def record(result)
    super
    word = result.skipped? ? "skip" : { true => "ok  ", false => "FAIL" }[result.passed?]
    io.puts format("%s %s.%s %.2f s", word, result.klass, result.name, result.time)

  end
end

# A connection that a service has dialled.
class Peer
  Frame = Struct.new(:kind, :flags, :exchange, :payload) do
    def end? = flags & 1 == 1
    def status = payload.unpack("Vv")[1]
    def code = payload.unpack1("v")
    def size = payload.unpack1("V")
    def body = kind == Pilotlight::Wire::RESPONSE ? payload.byteslice(8 + size..) : payload
    def fields = payload.byteslice(8, size).split("\0", -1)[0..-2].each_slice(2).to_a
    def field(name) = fields.assoc(name)&.last
  end

  attr_reader :io, :hello

  def initialize(socket, minor: 1)
    @io = socket
    @hello = self.next.payload
    send(Pilotlight::Wire.frame(2, 0, 0, "PIPE/1\nworker=0\nmax_frame=65536\nminor=#{minor}\n"))
  end

  def send(*frames)
    @io.write(frames.join)
  end

  # The next frame; nil at the end of the stream.
  def next
    Timeout.timeout(LIMIT) do
      header = @io.read(8) or return
      size, kind, flags, exchange = header.unpack("VCCv")
      Frame.new(kind, flags, exchange, @io.read(size).to_s)
    end
  rescue Errno::ECONNRESET
    nil
  end

  # All of an answer: RESPONSE, its body, and the frame that ends it.
  def answer
    first = last = self.next
    body = first.body.dup
    until last.end? || [7, 9].include?(last.kind)
      last = self.next
      body << last.payload if last.kind == 6
    end
    [first, body, last]
  end
end

# A listening socket, and a service that dials it.
class PipeTest < Minitest::Test
  include Pilotlight::Wire

  def setup
    @folder = Dir.mktmpdir("pl")
    @listener = UNIXServer.new(File.join(@folder, "s"))
    @peers = []
  end

  def teardown
    if @pid && !@status
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
    end
    [@listener, *@peers.map(&:io)].each(&:close)
    FileUtils.remove_entry(@folder)
  end

  # Starts a service from Ruby source, or from the words of a command; returns its first connection.
  def serve(source, *words, accept: true)
    if words.empty?
      File.write(File.join(@folder, "service.rb"), "require 'pilotlight'\n#{source}")
      words = ["service.rb"]
    end
    environment = { "PILOTLIGHT_SOCKET" => @listener.path, "PILOTLIGHT_TOKEN" => "0" * 32 }
    @pid = Process.spawn(environment, "ruby", "-I", LIB, *words, chdir: @folder, in: "/dev/null",
                                                                out: log, err: log)
    accept ? self.accept : nil
  end

  def log = File.join(@folder, "log").then { |path| [path, "a"] }
  def said = File.read(File.join(@folder, "log"))

  def accept(**named)
    Timeout.timeout(LIMIT) { @peers << Peer.new(@listener.accept, **named) }
    @peers.last
  rescue Timeout::Error
    flunk "no connection came; the service said: #{said}"
  end

  def own(shared)
    shared.send(frame(13, 0, 0, [1, 1, 0].pack("vvV")))
    accept
  end

  def request(exchange, target = "/", fields: {}, body: "", flags: 1, method: "GET", deadline: 0)
    texts = [method, "http", "demo.test:8080", target, "HTTP/1.1", "127.0.0.1:5", "r-1"]
    texts.concat(fields.to_a.flatten)
    block = texts.map { |text| "#{text}\0".b }.join
    frame(3, flags, exchange, [block.bytesize, deadline].pack("VV") << block << body.b)
  end

  def exit_status
    Timeout.timeout(LIMIT) { Process.wait(@pid) }
    @status = $?.exitstatus
  end

  def eventually(what)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
    until yield
      flunk "#{what}: not within #{LIMIT} s; the service said: #{said}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      sleep 0.01
    end
  end
end

# Runs the tests of this process with one line for each.
module Minitest
  def self.plugin_lines_init(options)
    reporter.reporters.clear
    reporter << Lines.new(options[:io], options) << SummaryReporter.new(options[:io], options)
  end
  extensions << "lines"
end
