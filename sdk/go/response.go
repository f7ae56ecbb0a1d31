package pilotlight

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An exchange is its request (request.go) and the http.ResponseWriter of its answer. Invariant: exactly one final frame
// leaves for each exchange (P-16); final is the only place that sends it.
type exchange struct {
	server    *Server
	in        *conn // that of the REQUEST
	id        uint16
	requestID string
	request   *http.Request
	badTarget bool
	offered   bool // a switch to another protocol
	context   requestContext
	cancel    context.CancelFunc
	cancelled atomic.Int32 // the code of the RESET that did it
	body      body

	// Under in.mu.
	out      *conn // that of the answer
	received bool  // the request direction has ended
	answered bool  // the response direction has ended

	// The handler's.
	header    http.Header
	status    int // 0: the head has not been written
	declared  int64
	written   int64
	sniff     bool // content-type is to be guessed
	begun     bool // RESPONSE has been sent
	returned  bool
	resetCode int
	resetText string
	retry     time.Duration
	pooled    *pages

	detached bool        // the connection has left its reader, for another protocol
	hijacked bool        // the handler has that connection
	counted  atomic.Bool // among those that the end of the instance waits for

	logging sync.Mutex // a line of this exchange leaves before its final frame
	ended   bool       // under logging
}

var errEnded = errors.New("pilotlight: the exchange has ended, as its handler has returned")

// pages are the fields of the head and the part of the body that have not been sent.
type pages struct{ head, body []byte }

var pagePool = sync.Pool{New: func() any { return &pages{make([]byte, 0, 512), make([]byte, 0, 2048)} }}

const (
	maxPooledPage = 2 * minMaxFrame
	streamBytes   = 32 << 10 // of a stream that are gathered, if nobody flushes
	sniffBytes    = 512
	addedBytes    = 128 // room for the fields that completeHead and finish add
)

func (e *exchange) run() {
	defer e.end()
	if e.badTarget {
		http.Error(e, "400 Bad Request", http.StatusBadRequest)
	} else {
		e.server.Handler.ServeHTTP(e, e.request)
	}
	e.returned = true
}

// end sends what is missing of the answer when the handler has returned, or has panicked.
func (e *exchange) end() {
	if !e.returned {
		failure := recover()
		if failure == nil {
			failure = "runtime.Goexit"
		}
		if failure != http.ErrAbortHandler {
			e.server.logf("%s %s: the handler panicked: %v\n%s", e.request.Method, e.request.RequestURI, failure, debug.Stack())
		}
		e.resetCode, e.resetText = codeInternal, "the handler failed, its log says why"
	}
	if e.hijacked {
		if !e.returned {
			_ = e.in.sock.Close() // as net/http does; what holds it learns of it
			e.uncount()
		}
		return
	}
	if e.detached { // and the handler has not taken it
		defer e.release()
		if e.status == http.StatusSwitchingProtocols {
			return
		}
	}
	if code := int(e.cancelled.Load()); code != 0 && e.resetCode == 0 {
		e.resetCode, e.resetText = code, "cancelled"
	}
	if e.resetCode == 0 {
		if e.status == 0 {
			e.WriteHeader(http.StatusOK)
		}
		if e.declared >= 0 && e.written != e.declared && e.hasBody() {
			e.fail(fmt.Errorf("content-length is %d, %d bytes were written", e.declared, e.written))
		} else if err := e.finish(); err != nil {
			e.fail(err)
		}
	}
	if e.resetCode != 0 {
		e.final(resetFrame(e.id, e.resetCode, e.retry, e.resetText))
	}
}

func (e *exchange) hasBody() bool {
	return e.request.Method != http.MethodHead && e.status != http.StatusNoContent && e.status != http.StatusNotModified
}

func (e *exchange) fail(err error) {
	if code := int(e.cancelled.Load()); code != 0 && e.resetCode == 0 {
		e.resetCode, e.resetText = code, "cancelled"
	}
	if e.resetCode == 0 {
		e.server.logf("%s %s: %v", e.request.Method, e.request.RequestURI, err)
		e.resetCode, e.resetText = codeInternal, err.Error()
	}
}

// refuse ends an exchange of an instance that is draining (P-31).
func (e *exchange) refuse() { e.final(resetFrame(e.id, codeRefused, 0, "this instance is draining")) }

// cancelBy is for a RESET of the gateway's (P-26), and for a connection that is gone (P-34).
func (e *exchange) cancelBy(code int) {
	e.cancelled.CompareAndSwap(0, int32(code))
	e.cancel()
	e.body.fail(e.context.Err())
}

// Header implements http.ResponseWriter.
func (e *exchange) Header() http.Header {
	if e.header == nil {
		e.header = make(http.Header, 4)
	}
	return e.header
}

// WriteHeader implements http.ResponseWriter. 1xx is sent at once; 100 is not, for the gateway has sent that itself.
func (e *exchange) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("pilotlight: WriteHeader(%d) is no status", status))
	}
	if e.status != 0 || e.ended || e.hijacked {
		e.server.logf("%s %s: superfluous WriteHeader(%d)", e.request.Method, e.request.RequestURI, status)
		return
	}
	if status == http.StatusSwitchingProtocols {
		err := e.detach()
		if err == nil {
			err = e.accept(e.header.Get("Upgrade"), e.header)
		}
		if e.status = status; err != nil {
			e.status = http.StatusInternalServerError
			e.fail(err)
		}
		return
	}
	page := e.page()
	page.head = appendFields(append(page.head[:0], emptyHead[:]...), e.header, e.header["Connection"])
	if status < 200 {
		if status > 100 && e.resetCode == 0 {
			e.emit(frame{kind: typeInfo, id: e.id, head: withStatus(page.head, status)})
		}
		return
	}
	e.status = status
	_, typed := e.header["Content-Type"]
	e.sniff = !typed && e.header["Content-Encoding"] == nil
	if length := e.header["Content-Length"]; len(length) > 0 {
		if n, err := strconv.ParseInt(length[0], 10, 64); err == nil && n >= 0 {
			e.declared = n
		}
	}
}

func (e *exchange) page() *pages {
	if e.pooled == nil {
		e.pooled = pagePool.Get().(*pages)
		e.pooled.head, e.pooled.body = e.pooled.head[:0], e.pooled.body[:0]
	}
	return e.pooled
}

// Write implements http.ResponseWriter. An answer that fits one frame leaves when the handler returns.
func (e *exchange) Write(p []byte) (int, error) { return write(e, p) }

// WriteString implements io.StringWriter.
func (e *exchange) WriteString(p string) (int, error) { return write(e, p) }

func write[T []byte | string](e *exchange, p T) (int, error) {
	if e.status == 0 {
		e.WriteHeader(http.StatusOK)
	}
	switch {
	case e.ended:
		return 0, errEnded
	case e.hijacked || e.status == http.StatusSwitchingProtocols:
		return 0, http.ErrHijacked
	case e.cancelled.Load() != 0:
		return 0, e.context.Err()
	case e.resetCode != 0:
		return len(p), nil // thrown away
	case !e.hasBody():
		if e.request.Method != http.MethodHead {
			return 0, http.ErrBodyNotAllowed
		}
		e.written += int64(len(p))
		if page := e.page(); e.sniff && len(page.body) < sniffBytes {
			page.body = append(page.body, p...)
		}
		return len(p), nil
	case e.declared >= 0 && e.written+int64(len(p)) > e.declared:
		return 0, http.ErrContentLength
	}
	e.written += int64(len(p))
	page := e.page()
	limit := streamBytes
	if !e.begun {
		limit = int(e.in.maxFrame.Load()) - len(page.head) - addedBytes
	}
	if len(page.body)+len(p) <= limit {
		page.body = append(page.body, p...)
		return len(p), nil
	}
	if err := e.push([]byte(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (e *exchange) Flush() { _ = e.FlushError() }

// FlushError is what http.ResponseController calls.
func (e *exchange) FlushError() error {
	if e.status == 0 {
		e.WriteHeader(http.StatusOK)
	}
	if e.ended || e.hijacked || e.resetCode != 0 || e.status == http.StatusSwitchingProtocols {
		return nil
	}
	return e.push(nil)
}

// EnableFullDuplex is what http.ResponseController calls; an exchange always is.
func (e *exchange) EnableFullDuplex() error { return nil }

// push sends the head, what was gathered, and then more, as a stream.
func (e *exchange) push(more []byte) error {
	page := e.page()
	if !e.begun {
		if err := e.completeHead(more); err != nil {
			return err
		}
		f := frame{kind: typeResponse, id: e.id, head: withStatus(page.head, e.status)}
		if e.hasBody() && len(f.head)+len(page.body) <= minMaxFrame {
			f.body, page.body = page.body, page.body[:0]
		}
		if err := e.emit(f); err != nil {
			return err
		}
		e.begun = true
	}
	if !e.hasBody() {
		page.body = page.body[:0]
	}
	for _, part := range [][]byte{page.body, more} {
		for len(part) > 0 {
			n := len(part)
			if n > minMaxFrame {
				n = minMaxFrame
			}
			if err := e.emit(frame{kind: typeData, id: e.id, body: part[:n]}); err != nil {
				return err
			}
			part = part[n:]
		}
	}
	page.body = page.body[:0]
	return nil
}

// completeHead adds what net/http adds to a head before it leaves.
func (e *exchange) completeHead(more []byte) error {
	page := e.page()
	if sample := page.body; e.sniff && len(sample)+len(more) > 0 {
		if len(sample) < sniffBytes {
			sample = append(append(make([]byte, 0, sniffBytes), sample...), more[:min(len(more), sniffBytes-len(sample))]...)
		}
		page.head = appendField(page.head, "content-type", http.DetectContentType(sample))
	}
	if len(page.head) > minMaxFrame {
		return fmt.Errorf("a head of %d bytes, %d at most", len(page.head), minMaxFrame)
	}
	return nil
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

// emit sends a frame that must not be on a shared connection (P-17), on an answer connection if need be (P-24).
func (e *exchange) emit(f frame) error {
	if e.cancelled.Load() != 0 {
		return e.context.Err()
	}
	for e.out.kind == shared {
		c, err := e.server.answerConn(e.in.worker)
		if err != nil {
			e.fail(err)
			return err
		}
		c.mu.Lock()
		c.answering = e
		usable := !c.closing
		c.mu.Unlock()
		if usable {
			e.in.mu.Lock()
			e.out = c
			e.in.mu.Unlock()
		}
	}
	return e.out.flush(&f)
}

// finish sends the rest of a good answer, in one frame if that is the whole of it.
func (e *exchange) finish() error {
	page := e.page()
	var trailers []byte
	if e.hasBody() {
		trailers = appendTrailers(nil, e.header)
	}
	if len(trailers) > minMaxFrame {
		return fmt.Errorf("trailers of %d bytes, %d at most", len(trailers), minMaxFrame)
	}
	if len(trailers) > 0 {
		if err := e.push(nil); err != nil {
			return err
		}
		e.final(frame{kind: typeTrailers, flags: flagEnd, id: e.id, head: trailers})
		return nil
	}
	if e.begun {
		e.final(frame{kind: typeData, flags: flagEnd, id: e.id, body: page.body})
		return nil
	}
	if err := e.completeHead(nil); err != nil {
		return err
	}
	if e.request.Method == http.MethodHead {
		page.body = page.body[:0]
		if e.declared < 0 && e.written > 0 {
			page.head = appendField(page.head, "content-length", strconv.FormatInt(e.written, 10))
		}
	}
	e.final(frame{kind: typeResponse, flags: flagEnd, id: e.id, head: withStatus(page.head, e.status), body: page.body})
	return nil
}

// final sends the final frame and gives everything back.
func (e *exchange) final(f frame) {
	e.logging.Lock()
	wasEnded := e.ended
	e.ended = true
	e.logging.Unlock()
	if wasEnded {
		return
	}
	in, out := e.in, e.out
	in.mu.Lock()
	e.answered = true
	if e.received { // P-15: from now on the id may come again
		delete(in.exchanges, e.id)
	} else { // P-21
		stop := frame{kind: typeStop, id: e.id}
		in.out = stop.appendTo(in.out)
	}
	in.mu.Unlock()
	e.body.fail(http.ErrBodyReadAfterClose)
	switch out.kind {
	case shared:
		out.send(f)
	case own:
		_ = out.flush(&f)
	case answer:
		out.mu.Lock()
		out.answering = nil
		out.mu.Unlock()
		if out.flush(&f) == nil {
			e.server.keep(out)
		}
	}
	e.cancel()
	if page := e.pooled; page != nil {
		e.pooled = nil
		if cap(page.body) <= maxPooledPage && cap(page.head) <= maxPooledPage {
			pagePool.Put(page)
		}
	}
	e.uncount()
}

// uncount tells the service, once, that it need not wait for this exchange any more.
func (e *exchange) uncount() {
	if e.counted.Swap(false) {
		e.server.finished()
	}
}

// resetOf ends the exchange of w, which may be wrapped, with a RESET when its handler returns.
func resetOf(w http.ResponseWriter, code int, retry time.Duration, text string) error {
	for {
		if e, ours := w.(*exchange); ours {
			if e.begun || e.ended || e.status == http.StatusSwitchingProtocols {
				return fmt.Errorf("pilotlight: too late to answer %q, an answer has begun", text)
			}
			e.resetCode, e.resetText, e.retry = code, text, retry
			return nil
		}
		inner, wraps := w.(interface{ Unwrap() http.ResponseWriter })
		if !wraps {
			return errors.New("pilotlight: this http.ResponseWriter is not Pilotlight's and does not Unwrap to it")
		}
		w = inner.Unwrap()
	}
}

type logWriter struct {
	exchange *exchange
	level    Level
}

// Write implements io.Writer.
func (w *logWriter) Write(line []byte) (int, error) {
	e := w.exchange
	e.logging.Lock()
	defer e.logging.Unlock()
	if e.hijacked || e.status == http.StatusSwitchingProtocols {
		return os.Stderr.Write(line)
	}
	text := strings.ToValidUTF8(strings.TrimRight(string(line), "\n"), "\uFFFD")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	f := frame{kind: typeLog, id: e.id, head: append([]byte{byte(w.level)}, text...)}
	out := e.out
	if e.ended {
		f.id, out = 0, e.in
	}
	out.send(f)
	return len(line), nil
}

// emptyHead is the beginning of the payload of RESPONSE and INFO; withStatus fills it in.
var emptyHead [headerBytes]byte

func withStatus(head []byte, status int) []byte {
	binary.LittleEndian.PutUint32(head, uint32(len(head)-headerBytes))
	binary.LittleEndian.PutUint32(head[4:], uint32(status))
	return head
}

// lower has a byte of a field's name in lower case, or zero for one that no name may have (RFC 9110 §5.1).
var lower = func() (table [256]byte) {
	for _, c := range "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz" {
		table[c] = byte(c)
	}
	for c := 'A'; c <= 'Z'; c++ {
		table[c] = byte(c) + 'a' - 'A'
	}
	return
}()

// appendField leaves out a field whose name is none, and makes spaces of what a value must not have (P-8).
func appendField(b []byte, name, value string) []byte {
	start := len(b)
	for i := 0; i < len(name); i++ {
		c := lower[name[i]]
		if c == 0 {
			return b[:start]
		}
		b = append(b, c)
	}
	if name == "" {
		return b
	}
	at := len(b) + 1
	b = append(append(b, 0), value...)
	for ; at < len(b); at++ {
		if c := b[at]; c == 0 || c == '\r' || c == '\n' {
			b[at] = ' '
		}
	}
	return append(b, 0)
}

// crosses says whether fields of this name cross the pipe (P-9).
func crosses(name string, connection []string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade", "Expect":
		return false
	}
	for _, list := range connection {
		for _, one := range strings.Split(list, ",") {
			if strings.EqualFold(strings.TrimSpace(one), name) {
				return false
			}
		}
	}
	return !strings.HasPrefix(name, http.TrailerPrefix)
}

func appendFields(b []byte, header http.Header, connection []string) []byte {
	for name, values := range header {
		if crosses(name, connection) {
			for _, value := range values {
				b = appendField(b, name, value)
			}
		}
	}
	return b
}

// appendTrailers has the fields that `Trailer` has named, and those with http.TrailerPrefix.
func appendTrailers(b []byte, header http.Header) []byte {
	for _, list := range header["Trailer"] {
		for _, name := range strings.Split(list, ",") {
			for _, value := range header[http.CanonicalHeaderKey(strings.TrimSpace(name))] {
				b = appendField(b, strings.TrimSpace(name), value)
			}
		}
	}
	for name, values := range header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			for _, value := range values {
				b = appendField(b, strings.TrimPrefix(name, http.TrailerPrefix), value)
			}
		}
	}
	return b
}
