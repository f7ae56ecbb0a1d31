# frozen_string_literal: true

require_relative "pipe_test"
require_relative "rack_test"
exit Minitest.run(ARGV)
