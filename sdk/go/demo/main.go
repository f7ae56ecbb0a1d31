// The demo service that every SDK has; sdk/conformance drives it.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"pilotlight.example/go"
)

const tick = 20 * time.Millisecond

var (
	block     = bytes.Repeat(pattern(), 256)
	mu        sync.Mutex
	cancelled = map[string]bool{}
	seen      = map[string]bool{}
)

// pattern is the period of what /download sends.
func pattern() []byte {
	b := make([]byte, 251)
	for i := range b {
		b[i] = byte((i*31 + 7) % 251)
	}
	return b
}

func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return n
}

func json(w http.ResponseWriter, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, format, args...)
}

func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func pause(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	for name, values := range r.Header {
		if name == "Content-Type" || strings.HasPrefix(name, "X-Echo-") {
			w.Header()[name] = values
		}
	}
	w.Header().Set("X-Method", r.Method)
	w.Header().Set("X-Target", r.RequestURI)
	_, _ = w.Write(body)
}

func upload(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	n, err := io.Copy(hash, r.Body)
	if err == nil {
		json(w, `{"bytes":%d,"sha256":"%x"}`, n, hash.Sum(nil))
	}
}

func download(w http.ResponseWriter, r *http.Request) {
	left := number(r, "bytes")
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(left))
	for ; left > 0; left -= len(block) {
		part := block
		if left < len(part) {
			part = part[:left]
		}
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

func slow(w http.ResponseWriter, r *http.Request) {
	for i := 0; i < number(r, "chunks"); i++ {
		if i > 0 {
			pause(r, time.Duration(number(r, "ms"))*time.Millisecond)
		}
		fmt.Fprintf(w, "chunk %d\n", i)
		w.(http.Flusher).Flush()
	}
}

func wait(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, "tick\n")
		w.(http.Flusher).Flush()
		pause(r, tick)
	}
	mu.Lock()
	cancelled[r.URL.Query().Get("id")] = true
	mu.Unlock()
}

func flood(w http.ResponseWriter, r *http.Request) {
	lines := bytes.Repeat([]byte(strings.Repeat("x", 99)+"\n"), 640)
	for left := number(r, "bytes"); left > 0; left -= len(lines) {
		if left < len(lines) {
			lines = lines[:left]
		}
		_, _ = os.Stdout.Write(lines)
	}
	json(w, `{"flooded":%d}`, number(r, "bytes"))
}

func trailers(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Trailer", "X-Trailer")
	_, _ = io.WriteString(w, "body")
	w.Header().Set("X-Trailer", "yes")
}

func refuseOnce(w http.ResponseWriter, r *http.Request) {
	mu.Lock()
	defer mu.Unlock()
	if once := r.Header.Get("X-Once"); !seen[once] {
		seen[once] = true
		_ = pilotlight.Refuse(w)
		return
	}
	_, _ = io.WriteString(w, "taken")
}

func deadline(w http.ResponseWriter, r *http.Request) {
	at, limited := r.Context().Deadline()
	if !limited {
		json(w, `{"deadline_ms":null}`)
		return
	}
	json(w, `{"deadline_ms":%d}`, time.Until(at).Milliseconds())
}

// switchAndEcho switches to what is offered first, whatever that is, and sends back the bytes that come.
func switchAndEcho(w http.ResponseWriter, r *http.Request) {
	protocol, _, _ := strings.Cut(r.Header.Get("Upgrade"), ",")
	if protocol == "" {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
	_, _ = io.Copy(conn, conn)
}

// webSocket sends every message back. It is as much of RFC 6455 as that needs.
func webSocket(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	w.Header().Set("Upgrade", "websocket")
	w.Header().Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(sum[:]))
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, both, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	for err == nil {
		err = echoFrame(both)
	}
}

// echoFrame sends a frame back without its mask; a ping as a pong; behind a close there are no more.
func echoFrame(both *bufio.ReadWriter) error {
	var head [10]byte
	if _, err := io.ReadFull(both, head[:2]); err != nil {
		return err
	}
	size, extra := uint64(head[1]&0x7f), 0
	switch size {
	case 126:
		extra = 2
	case 127:
		extra = 8
	}
	if _, err := io.ReadFull(both, head[2:2+extra]); err != nil {
		return err
	}
	if extra == 2 {
		size = uint64(binary.BigEndian.Uint16(head[2:]))
	} else if extra == 8 {
		size = binary.BigEndian.Uint64(head[2:])
	}
	if size > 64<<20 || head[1]&0x80 == 0 {
		return errors.New("a frame that is too large or has no mask")
	}
	payload := make([]byte, 4+size)
	if _, err := io.ReadFull(both, payload); err != nil {
		return err
	}
	for i := range payload[4:] {
		payload[4+i] ^= payload[i%4]
	}
	kind := head[0] & 0x0f
	if kind == 9 {
		head[0]++
	}
	head[1] &= 0x7f
	_, _ = both.Write(head[:2+extra])
	_, _ = both.Write(payload[4:])
	if err := both.Flush(); err != nil || kind == 8 {
		return io.EOF
	}
	return nil
}

func main() {
	routes := http.NewServeMux()
	for path, handler := range map[string]http.HandlerFunc{
		"/upload": upload, "/download": download, "/slow": slow, "/wait": wait, "/flood": flood,
		"/trailers": trailers, "/refuse": refuseOnce, "/deadline": deadline, "/switch": switchAndEcho, "/ws": webSocket,
		"/early": text(http.StatusRequestEntityTooLarge, "too large\n"),
		"/crash": func(http.ResponseWriter, *http.Request) { os.Exit(3) },
		"/error": func(http.ResponseWriter, *http.Request) { panic("asked for by /error") },
		"/pid":   func(w http.ResponseWriter, _ *http.Request) { json(w, `{"pid":%d}`, os.Getpid()) },
		"/cancelled": func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			json(w, `{"cancelled":%t}`, cancelled[r.URL.Query().Get("id")])
		},
		"/status":  func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(number(r, "code")) },
		"/cookies": func(w http.ResponseWriter, _ *http.Request) { w.Header()["Set-Cookie"] = []string{"a=1", "b=2"} },
		"/sleep": func(w http.ResponseWriter, r *http.Request) {
			pause(r, time.Duration(number(r, "ms"))*time.Millisecond)
			_, _ = io.WriteString(w, "slept")
		},
		"/big-header": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Big", strings.Repeat("b", number(r, "bytes")))
		},
	} {
		routes.Handle(path, handler)
	}
	err := pilotlight.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/echo") { // before the mux, which would redirect to a cleaner path
			echo(w, r)
			return
		}
		routes.ServeHTTP(w, r)
	}))
	if err != nil {
		log.Fatal(err)
	}
}
