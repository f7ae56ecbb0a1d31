package pilotlight

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The request of an exchange, as net/http's server would make it.

type exchangeKey struct{}

// A requestContext ends with the exchange; by RESET(DEADLINE), which the gateway sends, its error is that of a
// deadline.
type requestContext struct {
	context.Context
	exchange *exchange
	deadline time.Time
}

func (c *requestContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *requestContext) Err() error {
	err := c.Context.Err()
	if err != nil && c.exchange.cancelled.Load() == codeDeadline {
		return context.DeadlineExceeded
	}
	return err
}

func (c *requestContext) Value(key any) any {
	if key == (exchangeKey{}) {
		return c.exchange
	}
	return c.Context.Value(key)
}

// newExchange reads the payload of a REQUEST. What it returns besides is what rides in it of a body that is not whole.
func newExchange(c *conn, id uint16, payload []byte, end bool) (*exchange, []byte, error) {
	if len(payload) < 8 || uint64(binary.LittleEndian.Uint32(payload)) > uint64(len(payload)-8) {
		return nil, nil, broken("P-8: a head beyond the %d bytes of the REQUEST", len(payload))
	}
	headEnd := 8 + binary.LittleEndian.Uint32(payload)
	text, rest := string(payload[8:headEnd]), payload[headEnd:]
	var first [7]string // method, scheme, authority, target, protocol, peer, request id
	for i := range first {
		at := strings.IndexByte(text, 0)
		if at < 0 {
			return nil, nil, broken("P-8: fewer than 7 strings in the head of a REQUEST")
		}
		first[i], text = text[:at], text[at+1:]
	}
	fields, err := parseFields(text)
	if err != nil {
		return nil, nil, err
	}
	e := &exchange{server: c.server, in: c, out: c, id: id, received: end, requestID: first[6], declared: -1}
	r := http.Request{Method: first[0], Host: first[2], RequestURI: first[3], Proto: first[4], RemoteAddr: first[5],
		Header: toHeader(fields)}
	r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(r.Proto)
	if r.URL, err = parseTarget(r.RequestURI); err != nil {
		r.URL, e.badTarget = &url.URL{}, true
	}
	if first[1] == "https" { // as net/http/cgi does
		r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	}
	setBody(&r, e, rest, end)
	e.context.Context, e.cancel = context.WithCancel(context.Background())
	e.context.exchange = e
	if ms := binary.LittleEndian.Uint32(payload[4:]); ms > 0 { // P-28
		e.context.deadline = time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	e.request = r.WithContext(&e.context)
	return e, rest, nil
}

func setBody(r *http.Request, e *exchange, rest []byte, end bool) {
	e.body.changed.L = &e.body.mu
	r.ContentLength = int64(len(rest))
	if end && len(rest) == 0 {
		r.Body = http.NoBody
		return
	}
	if end {
		r.Body = io.NopCloser(bytes.NewReader(append([]byte(nil), rest...)))
		return
	}
	r.Body, r.ContentLength = &e.body, -1
	if n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		r.ContentLength = n
	} else {
		r.TransferEncoding = []string{"chunked"}
	}
	if names := r.Header["Trailer"]; names != nil {
		r.Trailer = http.Header{}
		for _, name := range strings.Split(strings.Join(names, ","), ",") {
			r.Trailer[http.CanonicalHeaderKey(strings.TrimSpace(name))] = nil
		}
		delete(r.Header, "Trailer")
	}
	e.body.request = func() *http.Request { return e.request }
}

// toHeader makes net/http's form of names and values.
func toHeader(fields []string) http.Header {
	header := make(http.Header, len(fields)/2)
	values := make([]string, len(fields)/2)
	for i := range values {
		key := http.CanonicalHeaderKey(fields[2*i])
		values[i] = fields[2*i+1]
		if before := header[key]; before != nil {
			header[key] = append(before, values[i])
		} else {
			header[key] = values[i : i+1 : i+1]
		}
	}
	return header
}

// plain are the bytes that a path may have for net/url to leave it as it is.
var plain = func() (set [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~$&+,/:;=@" {
		set[c] = true
	}
	return
}()

// parseTarget is url.ParseRequestURI, with a shorter way for the targets that need no thought.
func parseTarget(target string) (*url.URL, error) {
	if len(target) == 0 || target[0] != '/' {
		return url.ParseRequestURI(target)
	}
	end := 1
	for end < len(target) && plain[target[end]] {
		end++
	}
	if end == len(target) {
		return &url.URL{Path: target}, nil
	}
	if target[end] != '?' || end+1 == len(target) {
		return url.ParseRequestURI(target)
	}
	for i := end + 1; i < len(target); i++ {
		if target[i] <= ' ' || target[i] == 0x7f {
			return url.ParseRequestURI(target)
		}
	}
	return &url.URL{Path: target[:end], RawQuery: target[end+1:]}, nil
}

// A body is one that arrives in pieces. The reader of the connection offers a piece, which stays in its buffer, and
// waits until the handler has read it: nothing else is held (P-22).
type body struct {
	mu       sync.Mutex
	changed  sync.Cond
	part     []byte
	trailers []string
	ended    bool
	err      error // why nothing more is read
	request  func() *http.Request
}

func (b *body) offer(part []byte, trailers []string, end bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return // P-21: thrown away
	}
	b.part, b.trailers, b.ended = part, trailers, end
	b.changed.Broadcast()
	for len(b.part) > 0 && b.err == nil {
		b.changed.Wait()
	}
	b.part = nil
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.part) == 0 && !b.ended && b.err == nil && len(p) > 0 {
		b.changed.Wait()
	}
	if b.err != nil {
		return 0, b.err
	}
	n := copy(p, b.part)
	if b.part = b.part[n:]; len(b.part) > 0 || len(p) == 0 {
		return n, nil
	}
	b.changed.Broadcast()
	if n > 0 || !b.ended {
		return n, nil
	}
	if b.trailers != nil {
		r := b.request()
		if r.Trailer == nil {
			r.Trailer = http.Header{}
		}
		for name, values := range toHeader(b.trailers) {
			r.Trailer[name] = values
		}
		b.trailers = nil
	}
	return 0, io.EOF
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.fail(http.ErrBodyReadAfterClose)
	return nil
}

func (b *body) fail(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	b.changed.Broadcast()
	b.mu.Unlock()
}
