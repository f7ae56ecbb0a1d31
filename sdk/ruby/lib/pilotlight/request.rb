# frozen_string_literal: true

module Pilotlight
  # Raised by an application: ends the exchange without an answer. The client sees 502 if nothing was sent before.
  class Reset < StandardError
    def code = Wire::INTERNAL
    def retry_after = 0
  end

  # The client has gone, or the deadline is over: nobody waits for the answer.
  class Cancelled < Reset
    def code = Wire::CANCELLED
  end

  # Nothing has happened: another instance may take the request, whatever its method (P-29).
  class Refused < Reset
    def code = Wire::REFUSED
  end

  # As `Refused`, and this instance has too much to do for `retry_after` seconds.
  class Overloaded < Refused
    attr_reader :retry_after

    def code = Wire::OVERLOADED

    def initialize(text = "too much to do", retry_after: 1)
      super(text)
      @retry_after = retry_after
    end
  end

  # The body of the request is larger than the application takes; the client sees 413.
  class TooLarge < Refused
    def code = Wire::TOO_LARGE
  end

  # One exchange: what the client asks, and the way to answer. An application finds it in `env["pilotlight.request"]`.
  class Request
    include Wire

    NO_FIELDS, NONE = {}.freeze, [].freeze

    # `fields` has name, value, name, value, …; `request_trailers` is filled when the body has been read.
    attr_reader :method, :scheme, :authority, :target, :protocol, :peer, :id, :fields, :request_trailers
    attr_reader :exchange, :link, :ended, :done

    def initialize(link, exchange, flags, payload)
      check(payload.bytesize >= HEAD_BYTES, "P-8: a REQUEST of %d bytes", payload.bytesize)
      size, deadline_ms = payload.unpack("VV")
      check(size <= payload.bytesize - HEAD_BYTES, "P-8: head_length is %d, the payload shorter", size)
      @fields = parse(payload.byteslice(HEAD_BYTES, size), 7)
      @method, @scheme, @authority, @target, @protocol, @peer, @id = @fields.shift(7)
      @due = Request.now + deadline_ms / 1000.0 if deadline_ms.positive?
      @source = @link = link # the connection of the request, and that of the answer
      @exchange, @ended, @done, @begun, @code = exchange, flags & END_FLAG != 0, false, false, 0
      @ahead = payload.byteslice(HEAD_BYTES + size..)
      @offered = flags & UPGRADE != 0 && link.kind == :own && link.minor.positive?
      check(@ended || !@offered, "P-38: REQUEST with UPGRADE and without END")
      @request_trailers = NO_FIELDS
    end

    # Fields that follow the body of the answer: a Hash to be filled before the body ends. Name them in `trailer`.
    def trailers = @trailers ||= {}

    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # The seconds left for the answer, or nil.
    def deadline
      @due && [0.0, @due - Request.now].max
    end

    # The next `size` bytes of the body, fewer only at its end; all that is left if nil.
    def read(size = nil)
      wait(size || Float::INFINITY)
      size && size < @ahead.bytesize ? @ahead.slice!(0, size) : take
    end

    # All of a body that has come whole.
    def whole = @ahead

    # What has come of the body, at least one byte of it; empty at its end.
    def read_some
      wait(1)
      take
    end

    # Whether the client has gone or the deadline is over; looks at the connections without waiting.
    def cancelled?
      return false if @switched

      [@source, @link].uniq.each do |link|
        next if @code != 0 || (link.kind == :own && !@ahead.empty?) # an unread body stays in the kernel

        link.look
      end
      @code != 0
    end

    # Writes a log line that belongs to this request; `level` is one of Wire::LEVELS.
    def log(text, level = :info)
      payload = [LEVELS.index(level) + 1].pack("C")
      return @link.send(frame(LOG, 0, @exchange, payload << cut(text))) unless @switched

      # P-41: there are no frames on its connection
      @source.service.of_kind(:shared).first&.send(frame(LOG, 0, 0, payload << cut("[#{@id}] #{text}")))
    end

    # The protocols, in lower case, that the client may switch to with this request (RFC 9110 §7.8).
    def offers
      return NONE unless @offered

      @fields.each_slice(2).filter_map { |name, value| value if name == "upgrade" }.join(",").downcase.split(/[\s,]+/)
    end

    # Answers 101: the connection is `protocol`'s, one of `offers` (P-40). Returns it, a UNIXSocket. What the application
    # returns counts no more.
    def upgrade(protocol, headers = {})
      hijack
      check(offers.include?(protocol.downcase), "%.80p is not what the client offers, %p", protocol, offers)
      block = Wire.fields(headers, "upgrade\0#{protocol}\0".b)
      @done = true
      @source.send(frame(RESPONSE, UPGRADE, @exchange, head(101, block)))
      @source.sock
    end

    # Takes the connection from the SDK, before its answer is known: what is sent on it is no longer the SDK's care.
    def hijack
      return @source.sock if @switched
      raise Violation, "P-38: nothing is offered to switch to; this request cannot be hijacked" unless @offered

      @source.service.switch(@source)
      @switched = @source.closed = true
      @source.sock
    end

    def switched? = !!@switched

    # Calls the block with the socket, once, if the instance is to end while a switched connection is open: end it then
    # by the means of its protocol (P-43).
    def on_drain(&block)
      @source.service.when_draining(@source.sock, block)
    end

    # What was hijacked gets an ordinary answer, and nothing else.
    def decline(status, headers, data)
      block = Wire.fields(headers)
      Wire.check(status.between?(200, 999), "the status is %d, it must be 101 or 200 to 999", status)
      @done = true
      @source.send(frame(RESPONSE, END_FLAG, @exchange, head(status, block) << data))
    end

    # What follows is for the SDK.

    # A frame of the request direction.
    def part(kind, flags, payload)
      check(!@offered || @begun, "P-39: type %d before the answer to an offered switch", kind)
      case kind
      when RESET then @code = payload.unpack1("v") || CANCELLED
      when TRAILERS then @request_trailers = parse(payload).each_slice(2).to_h
      else @ahead << payload unless @done
      end
      @ended ||= kind != DATA || flags & END_FLAG != 0
    end

    # Its connection has ended (P-34).
    def abandon
      @code = CANCELLED if @code.zero?
      @ended = true
    end

    def refuse
      @code = REFUSED
    end

    # Waits for `size` bytes of the body, less only at its end; raises if the exchange is over.
    def wait(size)
      @source.look(wait: true) while @ahead.bytesize < size && !@ended
      raise Cancelled if @code != 0
    end

    # Sends an answer in one frame that leaves with others (P-18), or as a stream if it is too large.
    def answer(status, block, data)
      if @trailers || HEAD_BYTES + block.bytesize + data.bytesize > MAX_FRAME
        start(status, block)
        write(data)
        return finish
      end
      stop
      final
      size = block.bytesize
      @source.out << ([HEAD_BYTES + size + data.bytesize, RESPONSE, END_FLAG, @exchange, size, status, 0]
                      .pack("VCCvVvv") << block << data.b)
    end

    # Begins a stream: its head leaves with the first bytes.
    def start(status, block)
      @head = head(status, block)
    end

    # Sends part of a stream, the head before it, in as many frames as it takes, while somebody waits for it.
    def write(data, kind = DATA, flags = 0)
      data = data.b
      while @head || flags != 0 || !data.empty?
        raise Cancelled if cancelled?

        leave_shared
        piece = data.slice!(0, MAX_FRAME - @head.to_s.bytesize)
        final if flags != 0
        @link.send(frame(@head ? RESPONSE : kind, flags, @exchange, @head ? @head << piece : piece))
        flags, @head, @begun = 0, nil, true
      end
    end

    # Sends a RESPONSE that is not the final one: 103, say.
    def inform(status, block)
      raise Cancelled if cancelled?

      leave_shared
      @begun = true
      @link.send(frame(INFO, 0, @exchange, head(status, block)))
    end

    # Ends a stream.
    def finish
      stop
      return write("", DATA, END_FLAG) unless @trailers

      write("") # the head, if nothing was sent
      write(Wire.fields(@trailers), TRAILERS, END_FLAG)
    end

    # Ends the exchange with a RESET, if it has not ended.
    def fail(error)
      return @source.sock.close if @switched
      return if @done

      final
      code = @code != 0 ? @code : error.code
      code = INTERNAL if @begun && @code.zero? # P-29: no REFUSED after a frame of the answer
      @link.send(reset(@exchange, code, error.message, error.retry_after))
    end

    private

    def take
      all = @ahead
      @ahead = String.new
      all
    end

    def head(status, block)
      [block.bytesize, status, 0].pack("Vvv") << block
    end

    # P-21: nobody will read the rest of the request.
    def stop
      @source.out << frame(STOP, 0, @exchange) unless @ended
    end

    # The final frame is about to be sent: the gateway may use the id again as soon as it sees it (P-15).
    def final
      @done = true
      @ahead = String.new
      @source.open.delete(@exchange) if @ended
    end

    # P-17, P-24: more than one frame is not sent on a shared connection.
    def leave_shared
      @link = @source.branch(self) if @link.kind == :shared
    end
  end
end
