// Package pilotlight answers the HTTP requests that the Pilotlight gateway sends over Pipe/1 (docs/spec/pipe.md) with
// an ordinary http.Handler:
//
//	func main() {
//		err := pilotlight.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//			fmt.Fprintf(w, "hello, you asked for %s\n", r.URL.Path)
//		}))
//		if err != nil {
//			log.Fatal(err)
//		}
//	}
//
// This file is the service: which connections there are, how many exchanges are open, drain and end.
package pilotlight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Limits. Those of a Server that are zero are DefaultExchanges, DefaultMaxOwn and DefaultMaxUpgraded.
const (
	DefaultExchanges   = 64
	DefaultMaxOwn      = 64
	DefaultMaxUpgraded = 1024

	maxLimit   = 4096 // of exchanges and max_own, spec §10
	maxShared  = 64   // shared connections; MORE beyond them is not followed
	drainReply = time.Second
)

// ErrNoGateway is what Serve returns (wrapped: use errors.Is) in a program that the gateway did not start. A program
// that also runs by itself answers it with http.ListenAndServe.
var ErrNoGateway = errors.New("not started by the gateway")

// A Server is the settings of a service. Its zero value, with a Handler, is what Serve uses.
type Server struct {
	Handler     http.Handler // nil: http.DefaultServeMux
	Exchanges   int          // requests at once on a shared connection, 1 to 4,096
	MaxOwn      int          // large or streamed requests at once, 1 to 4,096
	MaxUpgraded int          // connections that have switched to another protocol; beyond it clients get 503
	ErrorLog    *log.Logger  // nil: the log package's

	path, token string
	mu          sync.Mutex
	conns       map[*conn]struct{}
	count       [kinds]int
	idle        map[uint32][]*conn // answer connections for the next large answer, by worker (P-25)
	open        int                // exchanges without their final frame, and connections that have switched
	draining    bool               // new exchanges are refused
	leaving     bool               // the end comes when nothing is open
	onShutdown  []func()
	ended       chan struct{}
	endOnce     sync.Once
	err         error
}

// Serve answers requests with handler until the gateway, SIGTERM or SIGINT ends the service; see Server.Serve.
func Serve(handler http.Handler) error { return (&Server{Handler: handler}).Serve() }

// Serve answers requests until the gateway or a signal ends the service, and returns nil then, when every exchange has
// ended. It returns nil at once when the gateway is gone: the program has to exit (P-33). It may be called once.
func (s *Server) Serve() error {
	s.path, s.token = os.Getenv("PILOTLIGHT_SOCKET"), os.Getenv("PILOTLIGHT_TOKEN")
	if s.path == "" || s.token == "" {
		return fmt.Errorf("pilotlight: %w: PILOTLIGHT_SOCKET or PILOTLIGHT_TOKEN is not set, which the gateway does; "+
			"add the program to pilotlight.toml (command = [\"FILE\"], transport = \"pipe\") and run `pilotlight`", ErrNoGateway)
	}
	if s.Handler == nil {
		s.Handler = http.DefaultServeMux
	}
	s.Exchanges = limit(s.Exchanges, DefaultExchanges, maxLimit)
	s.MaxOwn = limit(s.MaxOwn, DefaultMaxOwn, maxLimit)
	s.MaxUpgraded = limit(s.MaxUpgraded, DefaultMaxUpgraded, 1<<30)
	s.mu.Lock()
	s.conns, s.idle = map[*conn]struct{}{}, map[uint32][]*conn{}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	s.mu.Unlock()
	first, err := s.dial(shared, nil)
	if err != nil {
		return err
	}
	go first.serve()
	signals := make(chan os.Signal, 1) // made while the gateway answers
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	for {
		select {
		case <-signals:
			signal.Stop(signals) // the next one ends the process
			s.drain(false)
		case <-s.ended:
			return s.err
		}
	}
}

// Shutdown finishes what is open, refuses the rest and lets Serve return, as SIGTERM does. It returns when that is
// done, or when ctx is.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	s.mu.Unlock()
	s.drain(false)
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RegisterOnShutdown has f called, in a goroutine of its own, when the instance is to end: for what holds connections
// that have switched to another protocol, which nobody else ends (P-43).
func (s *Server) RegisterOnShutdown(f func()) {
	s.mu.Lock()
	s.onShutdown = append(s.onShutdown, f)
	s.mu.Unlock()
}

// Refuse ends the exchange of w as one that has not begun: the gateway may send the request to another instance,
// whatever its method. What the handler writes afterwards is thrown away. It is an error if an answer has begun.
func Refuse(w http.ResponseWriter) error { return resetOf(w, codeRefused, 0, "refused") }

// Overloaded is like Refuse, and says for how long there is too much to do: 503 and Retry-After for the client.
func Overloaded(w http.ResponseWriter, retryAfter time.Duration) error {
	return resetOf(w, codeOverloaded, retryAfter, "overloaded")
}

// TooLarge says that the request's body is larger than what the service takes: 413 for the client.
func TooLarge(w http.ResponseWriter) error {
	return resetOf(w, codeTooLarge, 0, "the request's body is too large")
}

// RequestID is the gateway's id of the request with this context, or "".
func RequestID(ctx context.Context) string {
	if e, _ := ctx.Value(exchangeKey{}).(*exchange); e != nil {
		return e.requestID
	}
	return ""
}

// A Level is that of a line in the log.
type Level byte

// Levels of log lines.
const (
	LevelError Level = 1 + iota
	LevelWarn
	LevelInfo
	LevelDebug
	LevelTrace
)

// LogWriter makes each Write a log line of this level that belongs to the request with this context, for example by
// slog.NewTextHandler. For any other context it is standard error, which is a log as well.
func LogWriter(ctx context.Context, level Level) io.Writer {
	if e, _ := ctx.Value(exchangeKey{}).(*exchange); e != nil {
		return &logWriter{e, level}
	}
	return os.Stderr
}

func limit(value, otherwise, max int) int {
	if value <= 0 {
		return otherwise
	}
	if value > max {
		return max
	}
	return value
}

func (s *Server) logf(format string, args ...any) {
	if s.ErrorLog != nil {
		s.ErrorLog.Printf("pilotlight: "+format, args...)
		return
	}
	log.Printf("pilotlight: "+format, args...)
}

// more follows MORE: as many connections as are asked for and allowed (P-23).
func (s *Server) more(k kind, count int, worker uint32) {
	s.mu.Lock()
	max := maxShared
	if k == own {
		max = s.MaxOwn
	}
	if room := max - s.count[k]; count > room {
		count = room
	}
	if s.draining || count < 0 {
		count = 0
	}
	s.count[k] += count
	s.mu.Unlock()
	for i := 0; i < count; i++ {
		go func() {
			c, err := s.dial(k, &worker)
			s.mu.Lock()
			s.count[k]-- // dial has counted the connection itself
			s.mu.Unlock()
			if err == nil {
				c.serve()
			} else {
				s.logf("%v", err)
			}
		}()
	}
}

// begin counts an exchange that the gateway has sent, or says that it is to be refused (P-31).
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.open++
	return true
}

// finished counts an exchange whose final frame has been sent or queued.
func (s *Server) finished() {
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
	s.leave()
}

// drain finishes what is open and refuses the rest: P-31 by the gateway, P-32 by a signal or Shutdown.
func (s *Server) drain(byGateway bool) {
	s.mu.Lock()
	first := !s.draining
	s.draining, s.leaving = true, s.leaving || byGateway
	var told []*conn
	if first && !byGateway {
		for c := range s.conns {
			if c.kind == shared {
				told = append(told, c)
			}
		}
		time.AfterFunc(drainReply, func() { s.drain(true) })
	}
	hooks := s.onShutdown
	s.mu.Unlock()
	for _, c := range told {
		c.send(frame{kind: typeDrain, head: make([]byte, 4)})
	}
	if first {
		for _, f := range hooks {
			go f()
		}
	}
	s.leave()
}

// leave closes every connection when the instance is to end and nothing is open any more.
func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leaving || s.open > 0 {
		return
	}
	for c := range s.conns {
		go c.close(nil)
	}
	if len(s.conns) == 0 && s.ended != nil {
		s.end(nil)
	}
}

func (s *Server) end(err error) {
	s.endOnce.Do(func() {
		s.err = err
		close(s.ended)
	})
}

// closed forgets a connection. Without a shared one there is no gateway any more (P-33).
func (s *Server) closed(c *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.conns[c]; !known {
		return
	}
	delete(s.conns, c)
	s.count[c.kind]--
	if c.kind == answer {
		s.idle[c.worker] = without(s.idle[c.worker], c)
	}
	if len(s.conns) == 0 || s.count[shared] == 0 && !(s.leaving && s.open == 0) {
		s.end(err)
	}
}

// answerConn is a connection for a large or streamed answer: an idle one, or a new one.
func (s *Server) answerConn(worker uint32) (*conn, error) {
	s.mu.Lock()
	if idle := s.idle[worker]; len(idle) > 0 {
		c := idle[len(idle)-1]
		s.idle[worker] = idle[:len(idle)-1]
		s.mu.Unlock()
		return c, nil
	}
	s.mu.Unlock()
	c, err := s.dial(answer, &worker)
	if err == nil {
		go c.serve()
	}
	return c, err
}

// keep has an answer connection taken again by the next large answer.
func (s *Server) keep(c *conn) {
	s.mu.Lock()
	if _, known := s.conns[c]; known {
		s.idle[c.worker] = append(s.idle[c.worker], c)
	}
	s.mu.Unlock()
}

func without(list []*conn, c *conn) []*conn {
	for i, one := range list {
		if one == c {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
