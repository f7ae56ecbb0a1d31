# frozen_string_literal: true

module Pilotlight
  # One connection to the gateway: shared, own or answer.
  #
  # The threads of a shared connection take turns: one reads a batch, then all answer what is in the queue; the one that
  # finds it empty sends what is finished and waits to read. So quick answers leave together (P-18), and none waits for
  # a slow handler: a thread that takes a request while no other is idle starts one or, at the limit, first sends what
  # is finished. An own connection has one thread. An answer connection has none: it belongs to the thread that streams,
  # and another one takes that thread's place.
  # Invariant: of a body, what one read brings is all that is held in memory in each direction.
  class Link
    include Wire

    attr_reader :service, :kind, :worker, :minor, :sock, :open, :out, :answers
    attr_accessor :closed

    def initialize(service, kind, worker = nil)
      @service, @kind, @worker, @max_frame, @minor = service, kind, worker, MAX_HELLO, 0
      @rules, @tail, @open, @queue, @out, @answers = RULES[:new], nil, {}, [], [], []
      @reading, @sending, @closed = Mutex.new, Mutex.new, false
      @idle, @spare = [], Array.new(kind == :shared ? service.threads - 1 : 0, true) # threads; `pop` is atomic, `-= 1` is not
      @buffer = String.new(capacity: MAX_FRAME)
      @sock = UNIXSocket.new(service.path)
      @out << frame(HELLO, 0, 0, hello) # P-1: a thread sends it, or the first frame does
    end

    # A thread of this connection: answers what is waiting, else reads; until the connection or a stream ends.
    def tend
      until @closed && @queue.empty?
        if (request = @queue.shift)
          relieve if @idle.empty?
          answer(request)
          # `branch` has started a thread in the place of this one.
          return @answers << request.link unless request.link.equal?(self)
        else
          flush
          @idle << nil
          @reading.synchronize { flush && read if @queue.empty? && !@closed }
          @idle.pop
        end
      end
    end

    # An answer connection (P-24), idle (P-25) or new, for the rest of the answer to `request`.
    def branch(request)
      link = @answers.pop
      link&.look # its WELCOME, perhaps, or its end
      link = Link.new(@service, :answer, @worker) if link.nil? || link.closed
      link.open[request.exchange] = request
      Thread.new { tend }
      link
    end

    # Reads once, if no thread does, for a handler that asks (`wait` is false) or waits.
    def look(wait: false)
      return unless @reading.try_lock

      begin
        read(wait: wait)
      ensure
        @reading.unlock
      end
    end

    # Sends these frames and all that are finished, at once (P-18).
    def send(*frames)
      @out.push(*frames)
      flush
    end

    def flush
      return true if @out.empty?

      @sending.synchronize do
        ready = @out.shift(@out.size)
        ready = allowed(ready) if @last
        data = ready.size == 1 ? ready[0] : ready.join
        until data.empty?
          sent = @sock.write_nonblock(data, exception: false)
          sent == :wait_writable ? @sock.wait_writable : data = data.byteslice(sent..)
        end
      end
      true
    rescue SystemCallError, IOError => e
      close(e)
    end

    # Whether all that is finished has been sent.
    def sent?
      @out.empty? && !@sending.locked? # in this order: `flush` takes from `out` under the lock
    end

    # Ends the connection and its exchanges (P-34) and says why (P-10); the last shared one ends the service.
    def close(error)
      return false if @closed

      @closed = true
      @open.values.each(&:abandon) # a copy: another thread may add one
      is_ours = error.is_a?(Violation)
      send(@last = reset(0, PROTOCOL, error.message)) if is_ours
      @sock.shutdown rescue nil # the gateway was quicker
      is_gone = error.is_a?(EOFError) || error.is_a?(SystemCallError)
      $stderr.puts "pilotlight: #{@kind} connection closed: #{error.message}" unless is_gone
      @service.left(self, is_gone ? 0 : 1)
      false
    end

    private

    # P-10: nothing follows the frame that says which rule was broken, whatever threads still send.
    def allowed(frames)
      return [] if @is_over

      at = frames.index(@last)
      @is_over = !at.nil?
      at ? frames.first(at + 1) : frames
    end

    def hello
      text = "PIPE/1\ntoken=#{@service.token}\nkind=#{@kind}\nsdk=pilotlight-ruby/#{VERSION}\npid=#{Process.pid}\n" \
             "minor=#{MINOR}\n"
      text << "worker=#{@worker}\n" if @worker
      text << "exchanges=#{@service.exchanges}\nmax_own=#{@service.limits[:own]}\n" if @kind == :shared
      text
    end

    # Nobody would read while the application blocks this thread: another thread does, or what is finished leaves now.
    def relieve
      return flush unless @spare.pop

      Thread.new { tend }
    rescue ThreadError # as many as the system allows
      flush
    end

    # Runs the application and sends what it returns; whatever it raises, only this exchange ends by it.
    def answer(request)
      request.wait(0) # raises if it has been cancelled, or refused
      @service.app.call(request)
    rescue Exception => e # rubocop:disable Lint/RescueException
      $stderr.puts e.full_message(highlight: false) unless e.is_a?(Reset)
      request.fail(e.is_a?(Reset) ? e : Reset.new("#{e.class} in the application"))
    ensure
      @service.busy.pop
    end

    # Reads once and handles the frames that are whole; closes at the end of the stream and at a violation.
    def read(wait: true)
      while (data = @sock.read_nonblock(MAX_FRAME, @buffer, exception: false)) == :wait_readable
        return unless wait

        @sock.wait_readable
      end
      raise EOFError, "the gateway has closed it" unless data

      data = @tail << data if @tail
      start = handle(data)
      @tail = start < data.bytesize ? data.byteslice(start..) : nil
    rescue SystemCallError, IOError, Violation, GatewayError => e
      close(e)
    end

    # Handles the whole frames of `data`; returns where the rest begins.
    def handle(data)
      start = 0
      while data.bytesize - start >= HEADER_BYTES
        size, kind, flags, exchange = data.unpack("VCCv", offset: start)
        check(size <= @max_frame, "P-6: a frame of %d bytes, the limit is %d", size, @max_frame)
        start += HEADER_BYTES
        return start - HEADER_BYTES if start + size > data.bytesize

        take(kind, flags, exchange, data.byteslice(start, size))
        start += size
      end
      start
    end

    def take(kind, flags, exchange, payload)
      if (rule = @rules[kind])
        return __send__(rule, kind, flags, exchange, payload) unless kind == RESET && exchange.zero?
      elsif kind < HELLO || kind > LOG
        return check(flags & IGNORABLE != 0, "P-7: a frame of the unknown type %d", kind)
      end
      raise GatewayError, "the gateway says: #{payload.byteslice(8..)}" if kind == RESET && exchange.zero?

      check(false, "P-11: type %d on a connection of kind %s, or too early", kind, @kind)
    end

    def on_welcome(_kind, _flags, _exchange, payload)
      keys = payload.split("\n").to_h { |line| line.split("=", 2).then { |key, value| [key, value.to_s] } }
      fit = keys.key?("PIPE/1") && keys.key?("worker") && keys.key?("max_frame")
      check(fit, "P-3: not a WELCOME of PIPE/1: %.200p", payload)
      @worker, @max_frame = keys["worker"].to_i, [keys["max_frame"].to_i, MAX_FRAME].max
      @rules, @minor = RULES[@kind], keys["minor"].to_i
    end

    def on_request(_kind, flags, exchange, payload)
      check(@kind == :shared || @open.empty?, "P-19: REQUEST before the exchange before it has ended")
      check(@kind == :own || flags & END_FLAG != 0, "P-14: REQUEST without END on a shared connection")
      check(@open.size < @service.exchanges, "P-14: more than %d exchanges at once", @service.exchanges)
      check(exchange.positive? && !@open.key?(exchange), "P-15: the exchange id %d is 0 or open", exchange)
      request = @open[exchange] = Request.new(self, exchange, flags, payload)
      request.refuse if @service.draining # P-31
      @service.busy << nil
      @queue << request
    end

    def on_part(kind, flags, exchange, payload)
      request = @open[exchange]
      check(kind == RESET || (request && !request.ended), "P-11: type %d, exchange %d is not open", kind, exchange)
      return unless request # P-26: it has ended

      request.part(kind, flags, payload)
      @open.delete(exchange) if request.done && request.ended # the thread that answers may have been quicker
    end

    def on_ping(_kind, _flags, _exchange, payload)
      send(frame(PONG, 0, 0, payload)) # P-35
    end

    def on_drain(*)
      @service.drain
    end

    def on_more(_kind, _flags, _exchange, payload)
      check(payload.bytesize >= 8, "P-11: MORE of %d bytes", payload.bytesize)
      wanted, count, worker = payload.unpack("vvV")
      @service.dial(wanted == 1 ? :own : :shared, count, worker)
    end

    # P-11: what the gateway may send on each kind of connection, besides RESET on exchange 0.
    EXCHANGES = { REQUEST => :on_request, RESET => :on_part, PING => :on_ping }.freeze
    RULES = {
      new: { WELCOME => :on_welcome },
      answer: {},
      shared: { **EXCHANGES, MORE => :on_more, DRAIN => :on_drain },
      own: { **EXCHANGES, DATA => :on_part, TRAILERS => :on_part }
    }.freeze
  end
end
