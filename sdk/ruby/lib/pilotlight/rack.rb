# frozen_string_literal: true

require_relative "streams"

module Pilotlight
  # A Rack application behind the gateway: what it gets as `env`, and what it returns. Rack 2 and 3.
  class Gateway
    MAX_COLLECTED = 60_000 # bytes of an answer with a content-length that are sent whole, though it has no `to_ary`
    MAX_NAMES = 512 # names of fields, and authorities, that are remembered
    POLL_SECONDS = 0.02
    NO_BODY = { 204 => true, 304 => true }.freeze

    def initialize(app)
      raise ArgumentError, "#{app.inspect} is no Rack application: it has no `call`" unless app.respond_to?(:call)

      @app, @names, @hosts = app, {}, {}
      # Rack 2 demands that `rack.input` can be rewound; since Rack 3 it need not.
      @rewinds = defined?(::Rack.release) && ::Rack.release.to_i < 3
      @base = { "rack.version" => [1, 6], "rack.errors" => $stderr, "rack.multithread" => true, "SCRIPT_NAME" => "",
                "rack.multiprocess" => false, "rack.run_once" => false, "rack.hijack?" => true }.freeze
    end

    def call(request)
      env = environment(request)
      status, headers, body = @app.call(env)
      deliver(request, status.to_i, headers, body) unless request.switched?
    rescue Exception => e # rubocop:disable Lint/RescueException
      raise
    ensure
      body.close if body.respond_to?(:close)
      env&.fetch("rack.response_finished")&.reverse_each { |done| done.call(env, status, headers, e) }
    end

    private

    def environment(request)
      env = @base.dup
      path, query = request.target.split("?", 2)
      path ||= ""
      env["REQUEST_METHOD"] = request.method
      env["PATH_INFO"] = path
      env["QUERY_STRING"] = query || ""
      env["SERVER_PROTOCOL"] = env["HTTP_VERSION"] = request.protocol
      env["rack.url_scheme"] = request.scheme
      env["HTTP_HOST"] = request.authority
      env["SERVER_NAME"], env["SERVER_PORT"] = host(request)
      colon = request.peer.rindex(":") || 0
      env["REMOTE_ADDR"], env["REMOTE_PORT"] = request.peer.byteslice(0, colon), request.peer.byteslice(colon + 1..) || ""
      fields(request.fields, env)
      env["rack.input"] = request.ended ? StringIO.new(request.whole) : Input.new(request, @rewinds)
      env["rack.response_finished"] = []
      env["pilotlight.request"] = request
      env["rack.hijack"] = -> { env["rack.hijack_io"] = Hijacked.of(request) }
      env["rack.early_hints"] = ->(headers) { request.inform(103, Wire.fields(headers)) }
      offer(request.offers, env)
      env
    end

    # `connection` has not crossed the pipe; libraries look for it.
    def offer(protocols, env)
      env["rack.protocol"], env["HTTP_CONNECTION"] = protocols, "Upgrade" unless protocols.empty?
    end

    # SERVER_NAME and SERVER_PORT.
    def host(request)
      key = request.authority
      @hosts[key] || begin
        name, port = key.match(/\A(.*?)(?::(\d+))?\z/m).captures
        name = "localhost" if name.empty?
        pair = [name, port || (request.scheme == "https" ? "443" : "80")].freeze
        @hosts.size < MAX_NAMES ? @hosts[key] = pair : pair
      end
    end

    def fields(fields, env)
      index = 0
      while (name = fields[index])
        key = @names.fetch(name) { remember(name) }
        value = fields[index + 1]
        index += 2
        next unless key

        former = env[key]
        env[key] = former && key != "HTTP_HOST" ? "#{former}#{key == 'HTTP_COOKIE' ? '; ' : ', '}#{value}" : value
      end
    end

    # The key of `env` for a field; nil for a name with an underscore, which could pass for another.
    def remember(name)
      key = name.upcase.tr("-", "_")
      key = "HTTP_#{key}" unless %w[CONTENT_TYPE CONTENT_LENGTH].include?(key)
      key = nil if name.include?("_") || name == "version"
      @names.size < MAX_NAMES ? @names[name] = key : key
    end

    def deliver(request, status, headers, body)
      headers = headers.to_a.to_h unless headers.respond_to?(:key?)
      partial = headers["rack.hijack"]
      return switch(request, headers, partial || body) if status == 101

      Wire.check(status.between?(200, 999), "the status is %d, it must be 200 to 999", status)
      block = Wire.fields(headers)
      return request.answer(status, block, "") if request.method == "HEAD" || NO_BODY.key?(status)
      return stream(request, status, block, partial) if partial

      data = whole(body, headers)
      return request.answer(status, block, data) if data
      return stream(request, status, block, body) unless body.respond_to?(:each)

      request.start(status, block)
      body.each { |piece| request.write(piece) unless piece.empty? }
      request.finish
    end

    # All of the body, if it is there or announced to be small; else nil.
    def whole(body, headers)
      if body.respond_to?(:to_ary)
        pieces = body.to_ary
        return pieces.size == 1 ? pieces[0] : pieces.map(&:b).join
      end
      return unless body.respond_to?(:each)

      length = headers["content-length"] || headers["Content-Length"]
      return unless length && length.to_i <= MAX_COLLECTED

      data = String.new
      body.each { |piece| data << piece.b }
      data
    end

    # A body that is called with a stream (Rack 3), and Rack's partial hijack, which is the same.
    def stream(request, status, block, body)
      request.start(status, block)
      stream = Stream.new(request)
      body.call(stream)
      sleep POLL_SECONDS until stream.closed? || request.cancelled? # it may have given it to another thread
      raise Cancelled unless stream.closed?
    end

    # Rack 3.1's way to another protocol: the body is called with the connection.
    def switch(request, headers, body)
      protocol = headers["rack.protocol"] || headers["upgrade"] || headers["Upgrade"]
      io = request.upgrade(protocol.to_s, headers)
      body.call(io)
    end
  end
end
