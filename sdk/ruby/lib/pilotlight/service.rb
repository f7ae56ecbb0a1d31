# frozen_string_literal: true

module Pilotlight
  # The gateway has refused this instance, or a connection of it.
  class GatewayError < StandardError; end

  # This instance: what its connections share.
  class Service
    MAX_SHARED = 256 # connections
    DRAIN_SECONDS, POLL_SECONDS = 1.0, 0.01 # after SIGTERM: for the gateway's DRAIN; then between looks at what is open

    attr_reader :app, :path, :token, :threads, :exchanges, :limits, :draining, :busy

    def initialize(app, path:, token:, threads:, exchanges:, max_own:, max_upgraded:)
      [threads, exchanges, max_own].each do |number|
        raise ArgumentError, "threads, exchanges and max_own must be 1 to 4096, not #{number}" unless (1..4096).cover?(number)
      end
      @app, @path, @token, @threads, @exchanges = app, path, token, threads, exchanges
      @limits, @max_upgraded = { own: max_own, shared: MAX_SHARED }, max_upgraded
      @links, @switched, @busy = [], {}, [] # `busy` has an entry for each open exchange
      @lock, @bell, @draining, @released, @status = Mutex.new, Thread::Queue.new, false, false, nil
    end

    # Answers until the gateway or a signal ends the instance; returns the status to exit with.
    def run
      dial(:shared, 1)
      return 1 if @links.empty?

      $stdout.sync = true # standard output is the log
      former = %w[TERM INT].to_h { |name| [name, trap(name) { @bell << :signal }] }
      reason = @bell.pop
      @draining, until_ = true, Request.now + DRAIN_SECONDS
      of_kind(:shared).each { |link| link.send(Wire.frame(Wire::DRAIN, 0, 0, "\0" * 4)) } if reason == :signal # P-32
      @lock.synchronize { @switched.to_a }.each { |socket, block| tell(socket, block) } # P-43
      sleep POLL_SECONDS until @status || (at_rest? && (@released || Request.now > until_))
      former.each { |name, handler| trap(name, handler) }
      @status || 0
    end

    # Opens `count` connections of a kind, never more than its limit (P-23), and starts their threads.
    def dial(kind, count, worker = nil)
      room = @limits[kind] - of_kind(kind).size
      [count, room].min.times do
        link = Link.new(self, kind, worker)
        @lock.synchronize { @links << link }
        Thread.new { link.tend } # which says HELLO
      end
    rescue SystemCallError => e
      $stderr.puts "pilotlight: cannot dial the gateway at #{@path}: #{e.message}"
    rescue ThreadError => e
      link&.close(IOError.new(e.message)) # the system's limit of threads
    end

    def of_kind(kind)
      @lock.synchronize { @links.select { |link| link.kind == kind } }
    end

    # The gateway has said DRAIN (P-31).
    def drain
      @draining = @released = true
      @bell << :drain
    end

    # A connection has ended.
    def left(link, status)
      @lock.synchronize { @links.delete(link) }
      return unless link.kind == :shared && of_kind(:shared).empty?

      @status ||= status # P-33
      @bell << :gone
    end

    # A connection is to leave the protocol: it counts no longer for `max_own` (P-42).
    def switch(link)
      @lock.synchronize do
        @switched.delete_if { |socket, _| socket.closed? }
        raise Overloaded, "#{@max_upgraded} connections have switched protocols already" if @switched.size >= @max_upgraded

        @links.delete(link)
        @switched[link.sock] = nil
      end
    end

    # What to call when the instance is to end while this connection is open.
    def when_draining(socket, block)
      @lock.synchronize { @switched[socket] = block }
      tell(socket, block) if @draining
    end

    private

    def tell(socket, block)
      block&.call(socket) unless socket.closed?
    rescue StandardError => e
      $stderr.puts e.full_message(highlight: false)
    end

    # Whether every exchange has ended, every answer has been sent, and every other protocol's connection is closed.
    def at_rest?
      @busy.empty? && @lock.synchronize { @links.all?(&:sent?) && @switched.each_key.all?(&:closed?) }
    end
  end
end
