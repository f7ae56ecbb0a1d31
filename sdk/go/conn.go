package pilotlight

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A connection of Pipe/1: cuts what was read into frames, checks each against the rules, and writes in batches (P-18).
// It knows no http. Invariant: no memory is sized by a length that has not been checked.

const (
	version      = "0.1.0"
	minMaxFrame  = 65536 // max_frame until WELCOME says more
	maxWelcome   = 4096
	maxText      = 1024 // bytes of the text of RESET and LOG
	headerBytes  = 8
	smallBuffer  = 4096 + headerBytes        // of an idle own connection, and of an answer connection
	largeBuffer  = minMaxFrame + headerBytes // of shared ones, and of own ones in an exchange
	gatherBytes  = 8192                      // a body from this size on is not copied behind its head
	dialPatience = 5 * time.Second           // for a full backlog of the gateway's
	lastWords    = time.Second               // for RESET(PROTOCOL) to leave
	patience     = time.Millisecond          // that an answer waits for others of its read
)

type kind int

const (
	shared kind = iota
	own
	answer
	upgraded
	kinds
)

func (k kind) String() string { return [...]string{"shared", "own", "answer", "upgraded"}[k] }

const (
	typeHello = 1 + iota
	typeWelcome
	typeRequest
	typeResponse
	typeInfo
	typeData
	typeTrailers
	typeStop
	typeReset
	typePing
	typePong
	typeDrain
	typeMore
	typeLog
)

const (
	flagEnd       = 0x01
	flagUpgrade   = 0x02
	flagIgnorable = 0x80
)

const (
	codeCancelled = 1 + iota
	codeDeadline
	codeRefused
	codeOverloaded
	codeInternal
	codeProtocol
	codeTooLarge
)

// allowed is what the gateway may send (P-11), by type: on which kinds of connection, and its size if that is fixed.
var allowed = [...]struct {
	on   [kinds]bool
	size int
}{
	typeWelcome:  {on: [kinds]bool{shared: true, own: true, answer: true}},
	typeRequest:  {on: [kinds]bool{shared: true, own: true}},
	typeData:     {on: [kinds]bool{own: true}},
	typeTrailers: {on: [kinds]bool{own: true}},
	typeReset:    {on: [kinds]bool{shared: true, own: true, answer: true}},
	typePing:     {on: [kinds]bool{shared: true, own: true}, size: 8},
	typePong:     {on: [kinds]bool{shared: true, own: true}, size: 8},
	typeDrain:    {on: [kinds]bool{shared: true}, size: 4},
	typeMore:     {on: [kinds]bool{shared: true}, size: 8},
	typeLog:      {},
}

// A violation is what the gateway has done against a rule.
type violation string

func (v violation) Error() string { return string(v) }

func broken(format string, args ...any) error { return violation(fmt.Sprintf(format, args...)) }

// A frame that is to be sent; its payload is head and then body.
type frame struct {
	kind, flags byte
	id          uint16
	head, body  []byte
}

func (f *frame) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.head)+len(f.body)))
	b = append(b, f.kind, f.flags, byte(f.id), byte(f.id>>8))
	return append(b, f.head...)
}

func resetFrame(id uint16, code int, retryAfter time.Duration, text string) frame {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, headerBytes+len(text)), uint32(code))
	head = binary.LittleEndian.AppendUint32(head, uint32(retryAfter.Milliseconds()))
	return frame{kind: typeReset, id: id, head: append(head, text...)}
}

type conn struct {
	server   *Server
	sock     *net.UnixConn
	kind     kind
	worker   uint32
	minor    int
	maxFrame atomic.Int64
	welcomed bool

	// The reader's: what was read and not handled yet is buf[start:end].
	buf        []byte
	start, end int
	pooled     *[]byte
	stopped    chan struct{} // closed when the reader has ended

	mu        sync.Mutex // of what follows
	exchanges map[uint16]*exchange
	answering *exchange // of an answer connection
	pending   []*exchange
	taken     int // of pending, by workers
	out       []byte
	claimed   bool      // somebody is going to write out
	since     time.Time // when the reader has claimed that
	hijacked  bool
	closing   bool

	writing sync.Mutex // held while bytes are written; of spare and isOver
	isOver  bool       // the last words have been said
	spare   []byte
}

var buffers = sync.Pool{New: func() any { b := make([]byte, largeBuffer); return &b }}

// dial opens a connection and queues its HELLO (P-1), which leaves with the first write.
func (s *Server) dial(k kind, worker *uint32) (*conn, error) {
	address := &net.UnixAddr{Name: s.path, Net: "unix"}
	sock, err := net.DialUnix("unix", nil, address)
	until := time.Now().Add(dialPatience)
	for wait := time.Millisecond; errors.Is(err, syscall.EAGAIN) && time.Now().Before(until); wait *= 2 {
		time.Sleep(wait)
		sock, err = net.DialUnix("unix", nil, address)
	}
	if err != nil {
		return nil, fmt.Errorf("pilotlight: cannot dial the gateway: %w", err)
	}
	c := &conn{server: s, sock: sock, kind: k, exchanges: map[uint16]*exchange{}, stopped: make(chan struct{})}
	c.maxFrame.Store(minMaxFrame)
	size := smallBuffer
	if k == shared {
		size = largeBuffer
	}
	c.buf = make([]byte, size)
	hello := fmt.Sprintf("PIPE/1\ntoken=%s\nkind=%s\nminor=1\nmax_own=%d\nsdk=go/%s\npid=%d\n",
		s.token, k, s.MaxOwn, version, os.Getpid())
	if k == shared {
		hello += fmt.Sprintf("exchanges=%d\n", s.Exchanges)
	}
	if worker != nil { // P-2, P-13
		c.worker = *worker
		hello += fmt.Sprintf("worker=%d\n", *worker)
	}
	first := frame{kind: typeHello, head: []byte(hello)}
	c.out = first.appendTo(nil)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.count[k]++
	s.mu.Unlock()
	return c, nil
}

// serve reads until the connection ends. A shared one writes once for all answers of a read that are there by then.
func (c *conn) serve() {
	defer close(c.stopped)
	err := c.flush(nil)
	for err == nil {
		if err = c.fill(); err != nil {
			break
		}
		if c.kind != shared {
			err = c.take()
			c.shrink()
			continue
		}
		c.mu.Lock()
		mine := !c.claimed
		c.claimed, c.since = true, time.Now()
		c.mu.Unlock()
		err = c.take()
		c.dispatch()
		if mine {
			if failed := c.flush(nil); err == nil {
				err = failed
			}
		}
	}
	c.mu.Lock()
	hijacked := c.hijacked
	c.mu.Unlock()
	if !hijacked {
		c.close(err)
	}
}

// dispatch runs the handlers of a read. One goroutine takes them one after the other as long as they do not block; for
// each time that the scheduler comes back here before all are taken there is one goroutine more.
func (c *conn) dispatch() {
	for {
		c.mu.Lock()
		done := c.taken == len(c.pending)
		if done {
			c.pending, c.taken = c.pending[:0], 0
		}
		c.mu.Unlock()
		if done {
			return
		}
		go c.work()
		runtime.Gosched()
	}
}

func (c *conn) work() {
	finished := false
	defer func() {
		if !finished {
			go c.work() // a handler has called runtime.Goexit
		}
	}()
	for {
		c.mu.Lock()
		if c.taken == len(c.pending) {
			c.mu.Unlock()
			finished = true
			return
		}
		e := c.pending[c.taken]
		c.pending[c.taken] = nil
		c.taken++
		c.mu.Unlock()
		e.run()
	}
}

// fill reads once, into a larger buffer if the next frame needs one.
func (c *conn) fill() error {
	if c.start == c.end {
		c.start, c.end = 0, 0
	}
	need := headerBytes
	if c.end-c.start >= headerBytes {
		need += int(binary.LittleEndian.Uint32(c.buf[c.start:])) // take has checked it (P-6)
	}
	if need > len(c.buf) {
		larger := c.largerBuffer(need)
		c.start, c.end, c.buf = 0, copy(larger, c.buf[c.start:c.end]), larger
	} else if c.start > 0 {
		c.start, c.end = 0, copy(c.buf, c.buf[c.start:c.end])
	}
	n, err := c.sock.Read(c.buf[c.end:])
	c.end += n
	return err
}

func (c *conn) largerBuffer(need int) []byte {
	if need > largeBuffer {
		return make([]byte, need)
	}
	c.pooled = buffers.Get().(*[]byte)
	return *c.pooled
}

// shrink gives the large buffer back between exchanges.
func (c *conn) shrink() {
	if len(c.buf) == smallBuffer || c.start != c.end {
		return
	}
	c.mu.Lock()
	idle := len(c.exchanges) == 0
	c.mu.Unlock()
	if idle {
		if c.pooled != nil {
			buffers.Put(c.pooled)
		}
		c.pooled, c.buf, c.start, c.end = nil, make([]byte, smallBuffer), 0, 0
	}
}

// take handles the frames that are whole.
func (c *conn) take() error {
	for c.end-c.start >= headerBytes {
		header := c.buf[c.start:]
		length := int64(binary.LittleEndian.Uint32(header))
		if max := c.maxFrame.Load(); length > max {
			return broken("P-6: a payload of %d bytes, max_frame is %d", length, max)
		}
		if int64(c.end-c.start) < headerBytes+length {
			break
		}
		payload := header[headerBytes : headerBytes+length]
		err := c.frame(header[4], header[5], binary.LittleEndian.Uint16(header[6:]), payload)
		if err != nil {
			return err
		}
		c.start += headerBytes + int(length)
	}
	return nil
}

func (c *conn) frame(kind, flags byte, id uint16, payload []byte) error {
	if kind == 0 || kind > typeLog {
		if flags&flagIgnorable == 0 {
			return broken("P-7: type %d is not known and not IGNORABLE", kind)
		}
		return nil
	}
	rule := &allowed[kind]
	if !rule.on[c.kind] {
		return broken("P-11: type %d does not come on a connection of kind %s", kind, c.kind)
	}
	if rule.size != 0 && rule.size != len(payload) {
		return broken("P-11: type %d with %d bytes", kind, len(payload))
	}
	if c.welcomed == (kind == typeWelcome) && !(kind == typeReset && id == 0) {
		return broken("P-3: WELCOME is the first frame, once")
	}
	switch kind {
	case typeWelcome:
		return c.welcome(payload)
	case typeRequest:
		return c.request(id, flags, payload)
	case typeData:
		return c.part(id, payload, nil, flags&flagEnd != 0)
	case typeTrailers:
		fields, err := parseFields(string(payload))
		if err != nil {
			return err
		}
		return c.part(id, nil, fields, true)
	case typeReset:
		return c.reset(id, payload)
	case typePing: // P-35
		c.send(frame{kind: typePong, head: append([]byte(nil), payload...)})
	case typeDrain:
		c.server.drain(true)
	case typeMore:
		return c.more(payload)
	}
	return nil
}

func (c *conn) more(payload []byte) error {
	number := binary.LittleEndian.Uint16(payload)
	if number != 1 && number != 2 {
		return broken("P-11: MORE of kind %d", number)
	}
	count, worker := binary.LittleEndian.Uint16(payload[2:]), binary.LittleEndian.Uint32(payload[4:])
	c.server.more([...]kind{1: own, 2: shared}[number], int(count), worker)
	return nil
}

func (c *conn) welcome(payload []byte) error {
	if len(payload) > maxWelcome {
		return broken("P-6: a WELCOME of %d bytes, %d at most", len(payload), maxWelcome)
	}
	lines := strings.Split(string(payload), "\n")
	if lines[0] != "PIPE/1" {
		return broken("P-12: WELCOME begins with %q, not PIPE/1", lines[0])
	}
	worker, max := int64(-1), int64(0)
	for _, line := range lines[1:] {
		key, value, _ := strings.Cut(line, "=")
		number, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case key == "worker":
			worker = number
		case key == "max_frame":
			max = number
		case key == "minor":
			c.minor = int(number)
		}
	}
	if worker < 0 || worker > 1<<32-1 || max < minMaxFrame {
		return broken("P-3: WELCOME says worker=%d and max_frame=%d", worker, max)
	}
	if c.welcomed = true; c.kind == shared { // others have named theirs
		c.worker = uint32(worker)
	}
	c.maxFrame.Store(max)
	return nil
}

func (c *conn) request(id uint16, flags byte, payload []byte) error {
	end := flags&flagEnd != 0
	c.mu.Lock()
	open, used := len(c.exchanges), c.exchanges[id] != nil
	c.mu.Unlock()
	switch {
	case id == 0:
		return broken("P-15: a REQUEST with exchange id 0")
	case c.kind == own && open > 0:
		return broken("P-19: a REQUEST before the exchange before it has ended")
	case c.kind == shared && !end:
		return broken("P-14: a REQUEST without END on a shared connection")
	case used:
		return broken("P-15: exchange %d is still open", id)
	case open >= c.server.Exchanges:
		return broken("P-14: more than exchanges=%d open", c.server.Exchanges)
	}
	offered := flags&flagUpgrade != 0 && c.minor > 0 && c.kind == own
	if offered && !end {
		return broken("P-38: a REQUEST with UPGRADE and without END")
	}
	e, rest, err := newExchange(c, id, payload, end)
	if err != nil {
		return err
	}
	if e.offered = offered; offered {
		e.request.Header.Set("Connection", "Upgrade") // which does not cross (P-38); libraries look for it
	}
	c.mu.Lock()
	c.exchanges[id] = e
	taken := c.server.begin()
	e.counted.Store(taken)
	if taken && c.kind == shared {
		c.pending = append(c.pending, e)
	}
	c.mu.Unlock()
	if !taken {
		e.refuse()
	} else if c.kind == own {
		go e.run()
	}
	if !end { // what rides in the REQUEST; it waits in the buffer for the handler (P-22)
		e.body.offer(rest, nil, false)
	}
	return nil
}

// part hands a piece of a streamed body to the handler, and waits until it is taken (P-22).
func (c *conn) part(id uint16, bytes []byte, trailers []string, end bool) error {
	c.mu.Lock()
	e := c.exchanges[id]
	if e == nil || e.received {
		c.mu.Unlock()
		return broken("P-20: a body for exchange %d, which takes none", id)
	}
	e.received = end
	if end && e.answered { // P-19: both directions have ended
		delete(c.exchanges, id)
	}
	c.mu.Unlock()
	e.body.offer(bytes, trailers, end)
	return nil
}

func (c *conn) reset(id uint16, payload []byte) error {
	if len(payload) < headerBytes {
		return broken("P-11: a RESET of %d bytes, 8 at least", len(payload))
	}
	code := int(binary.LittleEndian.Uint16(payload))
	if id == 0 {
		return fmt.Errorf("pilotlight: the gateway says: %q (code %d)", payload[headerBytes:], code)
	}
	if c.kind == answer {
		return broken("P-25: a RESET for an exchange on an answer connection")
	}
	c.mu.Lock()
	e := c.exchanges[id]
	if e != nil && !e.received {
		e.received = true // P-26: no DATA follows
		if e.answered {
			delete(c.exchanges, id)
		}
	}
	c.mu.Unlock()
	if e != nil { // P-26: ignored for one that has ended
		e.cancelBy(code)
	}
	return nil
}

// send queues a frame without a body; on a shared connection others may leave with it.
func (c *conn) send(f frame) {
	c.mu.Lock()
	c.out = append(f.appendTo(c.out), f.body...)
	mine := !c.claimed
	if c.kind == shared {
		now := time.Now()
		if late := now.Sub(c.since) > patience; mine || late { // the others of the read are slow
			mine, c.since = true, now
		}
		c.claimed = true
	}
	c.mu.Unlock()
	if c.kind != shared {
		c.flush(nil)
	} else if mine {
		runtime.Gosched() // other handlers may be about to end
		c.flush(nil)
	}
}

// flush writes what is queued and then last, if there is one, with one call.
func (c *conn) flush(last *frame) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.isOver {
		return net.ErrClosed
	}
	return c.write(last)
}

// write does what flush does, for who holds c.writing.
func (c *conn) write(last *frame) error {
	c.mu.Lock()
	bytes := c.out
	c.out, c.claimed = c.spare[:0], false
	c.mu.Unlock()
	var err error
	if last != nil {
		bytes = last.appendTo(bytes)
		if len(last.body) >= gatherBytes {
			vector := net.Buffers{bytes, last.body}
			_, err = vector.WriteTo(c.sock)
			c.spare = bytes[:0]
			return err
		}
		bytes = append(bytes, last.body...)
	}
	if len(bytes) > 0 {
		_, err = c.sock.Write(bytes)
	}
	if c.spare = bytes[:0]; cap(c.spare) > 4*largeBuffer {
		c.spare = nil
	}
	return err
}

// close ends the connection and its exchanges (P-34), with RESET(PROTOCOL) if err is a violation (P-10).
func (c *conn) close(err error) {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	var cut []*exchange
	for _, e := range c.exchanges {
		if e.out == c {
			cut = append(cut, e)
		}
	}
	if c.answering != nil {
		cut = append(cut, c.answering)
	}
	c.mu.Unlock()
	if !first {
		return
	}
	var v violation
	if errors.As(err, &v) {
		c.sock.SetWriteDeadline(time.Now().Add(lastWords))
		f := resetFrame(0, codeProtocol, 0, v.Error())
		c.writing.Lock()
		c.write(&f)
		c.isOver = true // P-10: nothing follows, whatever handlers still write
		c.writing.Unlock()
		err = fmt.Errorf("pilotlight: the gateway has broken a rule: %w", err)
	} else if errors.Is(err, io.EOF) || errors.As(err, new(*net.OpError)) {
		err = nil // the end of the stream, however it came
	} else if err == nil {
		c.flush(nil) // what is still queued
	}
	c.sock.Close()
	for _, e := range cut {
		e.cancelBy(codeCancelled)
	}
	if err != nil && c.kind != shared {
		c.server.logf("a connection of kind %s has ended: %v", c.kind, err)
	}
	c.server.closed(c, err)
}

// parseFields cuts names and values; each string ends with a zero byte (P-8).
func parseFields(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	if text[len(text)-1] != 0 {
		return nil, broken("P-8: the last string has no final zero byte")
	}
	list := make([]string, 0, strings.Count(text, "\x00"))
	for len(text) > 0 {
		end := strings.IndexByte(text, 0)
		list = append(list, text[:end])
		text = text[end+1:]
	}
	if len(list)%2 != 0 {
		return nil, broken("P-8: %d strings: a name without a value", len(list))
	}
	return list, nil
}
