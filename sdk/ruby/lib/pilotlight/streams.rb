# frozen_string_literal: true

module Pilotlight
  # `rack.input` of a body that is still coming: read as it is asked for. Where it must be rewound, what was read goes
  # to a temporary file as well.
  class Input
    def initialize(request, rewinds)
      @request, @rewinds, @line = request, rewinds, String.new
    end

    def read(size = nil, buffer = nil)
      data = @line.empty? ? take(size) : @line.slice!(0, size || @line.bytesize)
      data << take(size && size - data.bytesize) if size.nil? || data.bytesize < size
      data = nil if data.empty? && size&.positive?
      buffer ? buffer.replace(data || "") && (data && buffer) : data
    end

    def gets
      until (at = @line.index("\n"))
        piece = some
        return @line.empty? ? nil : @line.slice!(0..) if piece.empty?

        @line << piece
      end
      @line.slice!(0..at)
    end

    def each
      while (line = gets)
        yield line
      end
    end

    def rewind
      raise IOError, "rack.input of a stream cannot be rewound; see Rack::RewindableInput" unless @rewinds

      @line.clear
      @spool&.rewind
      0
    end

    def close
      @spool&.close
    end

    private

    def take(size)
      return spooled(size) { @request.read(_1) } if @rewinds

      @request.read(size)
    end

    def some
      return spooled(65_536) { |_| @request.read_some } if @rewinds

      @request.read_some
    end

    # What the file still has, and behind that what comes, which goes there.
    def spooled(size)
      data = @spool&.read(size) || String.new
      return data if size && data.bytesize == size

      more = yield(size && size - data.bytesize)
      unless more.empty?
        @spool ||= open_spool
        @spool.write(more)
      end
      data << more
    end

    def open_spool
      require "tempfile"
      Tempfile.new("pilotlight").tap { |file| file.unlink && file.binmode }
    end
  end

  # What a streaming body is called with: the request's body to read, the answer's to write.
  class Stream
    def initialize(request)
      @request, @is_closed = request, false
    end

    def read(size = nil, buffer = nil)
      data = @request.read(size)
      data = nil if data.empty? && size&.positive?
      buffer ? buffer.replace(data || "") && (data && buffer) : data
    end

    def write(*texts)
      raise IOError, "closed stream" if @is_closed

      texts.sum do |text|
        @request.write(text.to_s)
        text.to_s.bytesize
      end
    end

    def <<(text)
      write(text)
      self
    end

    def read_nonblock(size, buffer = nil, **)
      read([size, 1].max, buffer)
    end

    def write_nonblock(text, **)
      write(text)
    end

    # The head leaves, though nothing was written yet.
    def flush
      @request.write("")
      self
    end

    def close_read; end

    def close_write
      close
    end

    def close(*)
      return if @is_closed

      @is_closed = true
      @request.finish
    end

    def closed?
      @is_closed
    end
  end

  # What `rack.hijack` returns: the connection itself, a UNIXSocket, with a filter. An application writes the head of an
  # HTTP/1.1 answer to it first; the filter sends it as a RESPONSE (P-40). Behind a 101 every byte passes as it is (P-41);
  # any other answer must be whole in the write that ends its head, and the connection is closed behind it.
  module Hijacked
    MAX_HEAD = 65_536

    def self.of(request)
      socket = request.hijack
      socket.extend(self) unless socket.is_a?(self)
      socket.begin_with(request)
      socket
    end

    def begin_with(request)
      @request ||= request
      @head ||= String.new
    end

    def write(*texts)
      texts.sum { |text| filter(text.to_s) { |rest| super(rest) } }
    end

    def write_nonblock(text, **options)
      filter(text) { |rest| super(rest, **options) }
    end

    def syswrite(text)
      filter(text) { |rest| super(rest) }
    end

    def send(text, *flags)
      filter(text) { |rest| super(rest, *flags) }
    end

    def <<(text)
      write(text)
      self
    end

    def print(*texts)
      write(*texts)
      nil
    end

    private

    # The block sends bytes as they are; returns how many of `text` are taken.
    def filter(text)
      return yield(text) unless @head

      @head << text.b
      at = @head.index("\r\n\r\n")
      raise IOError, "the head of an answer is longer than #{MAX_HEAD} bytes" if !at && @head.bytesize > MAX_HEAD
      return text.bytesize unless at

      head, rest = @head.byteslice(0, at), @head.byteslice(at + 4..)
      @head = nil
      answer(head, rest)
      text.bytesize
    end

    def answer(head, rest)
      line, *lines = head.split("\r\n")
      status = line[%r{\AHTTP/1\.[01] (\d{3})}, 1].to_i
      fields = lines.map { |text| text.split(/:\s*/, 2) }
      if status == 101
        @request.upgrade(fields.find { |name, _| name.casecmp?("upgrade") }&.last.to_s, fields)
        write(rest) unless rest.empty?
      else
        @request.decline(status, fields, rest)
        close
      end
    end
  end
end
