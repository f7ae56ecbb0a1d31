package pilotlight

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Own connections that leave the protocol (spec §12), in the two ways that handlers know from net/http:
// WriteHeader(101) and then Hijack; or Hijack, and then an HTTP/1.1 answer as text, which becomes a RESPONSE here.
// Behind a 101 the bytes are the other protocol's; any other answer ends with the connection.

const maxSwitchHead = minMaxFrame - headerBytes // of that text, with the body of an answer that declines

var errNoOffer = errors.New("pilotlight: no client here asks for another protocol")

// accept sends the RESPONSE that switches to protocol (P-40).
func (e *exchange) accept(protocol string, header http.Header) error {
	if !strings.Contains(","+strings.ReplaceAll(strings.ToLower(e.request.Header.Get("Upgrade")), " ", "")+",",
		","+strings.ToLower(protocol)+",") {
		return fmt.Errorf("101 with `Upgrade: %s`, which the client does not offer", protocol)
	}
	head := appendField(emptyHead[:headerBytes:headerBytes], "upgrade", protocol)
	head = withStatus(appendFields(head, header, header["Connection"]), http.StatusSwitchingProtocols)
	return e.in.flush(&frame{kind: typeResponse, flags: flagUpgrade, id: e.id, head: head})
}

// Hijack implements http.Hijacker: for requests that offer another protocol only, for others have no connection.
func (e *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	switched := e.status == http.StatusSwitchingProtocols
	if e.hijacked || e.ended || e.status != 0 && !switched {
		return nil, nil, http.ErrHijacked
	}
	if !switched {
		if err := e.detach(); err != nil {
			return nil, nil, err
		}
	}
	e.hijacked = true
	h := &hijacked{UnixConn: e.in.sock, exchange: e, early: e.in.buf[e.in.start:e.in.end], settled: switched}
	return h, bufio.NewReadWriter(bufio.NewReader(h), bufio.NewWriter(h)), nil
}

// detach ends the reader of the connection, which counts no longer for max_own (P-42).
func (e *exchange) detach() error {
	c, s := e.in, e.server
	if !e.offered {
		return errNoOffer
	}
	s.mu.Lock()
	if s.count[upgraded] >= s.MaxUpgraded { // P-42
		s.mu.Unlock()
		e.resetCode, e.resetText, e.retry = codeOverloaded, "MaxUpgraded", time.Second
		return errors.New("pilotlight: as many connections as MaxUpgraded allows have switched")
	}
	delete(s.conns, c)
	s.count[own]--
	s.count[upgraded]++
	s.mu.Unlock()
	e.detached = true
	c.mu.Lock()
	c.hijacked = true
	delete(c.exchanges, e.id)
	c.mu.Unlock()
	c.sock.SetReadDeadline(time.Unix(1, 0))
	<-c.stopped
	c.sock.SetReadDeadline(time.Time{})
	return nil
}

// release ends a detached connection and its exchange.
func (e *exchange) release() error {
	err := e.in.sock.Close()
	e.cancel()
	e.server.mu.Lock()
	e.server.count[upgraded]--
	e.server.mu.Unlock()
	e.uncount()
	return err
}

// A hijacked connection is the client's from the 101 on. CloseWrite and the deadlines are the socket's.
type hijacked struct {
	*net.UnixConn
	exchange *exchange
	early    []byte
	text     []byte // of an answer whose head is not whole
	settled  bool   // the answer has been sent: what is written goes to the socket
	closed   atomic.Bool
}

// Read implements net.Conn.
func (h *hijacked) Read(p []byte) (int, error) {
	if len(h.early) > 0 {
		n := copy(p, h.early)
		h.early = h.early[n:]
		return n, nil
	}
	return h.UnixConn.Read(p)
}

// Write implements net.Conn.
func (h *hijacked) Write(p []byte) (int, error) {
	if h.settled {
		return h.UnixConn.Write(p)
	}
	if len(h.text)+len(p) > maxSwitchHead {
		return 0, fmt.Errorf("pilotlight: an answer to an upgrade of more than %d bytes", maxSwitchHead)
	}
	h.text = append(h.text, p...)
	status, header, rest := parseAnswer(h.text)
	if status != http.StatusSwitchingProtocols {
		return len(p), nil
	}
	protocol := header.Get("Upgrade")
	if err := h.exchange.accept(protocol, header); err != nil {
		return 0, err
	}
	h.settled = true
	if len(rest) > 0 {
		if _, err := h.UnixConn.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close implements net.Conn. An answer that declines leaves with it.
func (h *hijacked) Close() error {
	e := h.exchange
	if h.closed.Swap(true) {
		return net.ErrClosed
	}
	if !h.settled {
		f := resetFrame(e.id, codeInternal, 0, "what was written is no answer to an upgrade")
		if status, header, rest := parseAnswer(h.text); status >= 200 {
			fields := appendFields(emptyHead[:headerBytes:headerBytes], header, header["Connection"])
			f = frame{kind: typeResponse, flags: flagEnd, id: e.id, head: withStatus(fields, status), body: rest}
		}
		_ = e.in.flush(&f)
	}
	return e.release()
}

// parseAnswer reads the HTTP/1.1 answer that text begins with; its status is 0 while the head is not whole.
func parseAnswer(text []byte) (status int, header http.Header, rest []byte) {
	end := bytes.Index(text, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, nil, nil
	}
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		return 0, nil, nil
	}
	return r.StatusCode, r.Header, text[end+4:]
}
