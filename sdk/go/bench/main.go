// Command bench compares this SDK with net/http's server over a Unix socket: processor time of the service for each
// exchange with many in flight, and time and processor time of a cold start. Rounds alternate; read the ratios.
//
//	go run ./bench [-flight 64] [-seconds 2] [-rounds 5] [-starts 20]
package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pilotlight.example/go"
)

const ticksPerSecond = 100

var answer = []byte(`{"id":42,"pad":"` + strings.Repeat("x", 182) + `"}`)

// handler is the same behind both.
func handler(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer)
}

func serve() {
	var err error
	if os.Getenv("PILOTLIGHT_SOCKET") != "" {
		err = (&pilotlight.Server{Handler: http.HandlerFunc(handler), Exchanges: 256}).Serve()
	} else {
		var listener net.Listener
		if listener, err = net.FileListener(os.NewFile(3, "listener")); err == nil {
			err = http.Serve(listener, http.HandlerFunc(handler))
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A variant starts the service on a socket, keeps `flight` exchanges going and counts answers.
type variant struct {
	name string
	run  func(flight int, count *atomic.Int64) *exec.Cmd
}

func listen() (*net.UnixListener, string) {
	folder, err := os.MkdirTemp("", "pilotlight-bench-")
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "s"), Net: "unix"})
	if err != nil {
		log.Fatal(err)
	}
	return listener, folder
}

func start(listener *net.UnixListener, environment ...string) *exec.Cmd {
	command := exec.Command(os.Args[0])
	command.Env = append(append(os.Environ(), "BENCH_SERVICE=1"), environment...)
	command.Stderr = os.Stderr
	if listener != nil {
		file, err := listener.File()
		if err != nil {
			log.Fatal(err)
		}
		defer file.Close()
		command.ExtraFiles = []*os.File{file}
	}
	if err := command.Start(); err != nil {
		log.Fatal(err)
	}
	return command
}

func frame(kind, flags byte, id uint16, payload string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	return append(append(b, kind, flags, byte(id), byte(id>>8)), payload...)
}

func request(id uint16) []byte {
	head := strings.Join([]string{"GET", "http", "test.local", "/user/42", "HTTP/1.1", "127.0.0.1:5000", "req-1", "user-agent",
		"bench", "accept", "*/*", "accept-encoding", "gzip, br", "x-forwarded-for", "127.0.0.1", ""}, "\x00")
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	return frame(3, 1, id, string(append(b, 0, 0, 0, 0))+head)
}

func pipe(kind string) func(int, *atomic.Int64) *exec.Cmd {
	return func(flight int, count *atomic.Int64) *exec.Cmd {
		listener, folder := listen()
		command := start(nil, "PILOTLIGHT_SOCKET="+filepath.Join(folder, "s"), "PILOTLIGHT_TOKEN="+strings.Repeat("0", 32))
		go func() {
			defer os.RemoveAll(folder)
			for accepted := 0; ; accepted++ {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				first := frame(2, 0, 0, "PIPE/1\nworker=1\nmax_frame=65536\n")
				switch {
				case kind == "own" && accepted == 0:
					first = append(first, frame(13, 0, 0, string([]byte{1, 0, byte(flight), 0, 1, 0, 0, 0}))...)
				case kind == "own":
					first = append(first, request(1)...)
				default:
					for id := 1; id <= flight; id++ {
						first = append(first, request(uint16(id))...)
					}
				}
				go drive(conn, first, count)
			}
		}()
		return command
	}
}

// drive sends a request for each answer, all for the answers of a read in one write.
func drive(conn net.Conn, out []byte, count *atomic.Int64) {
	buffer, end := make([]byte, 1<<18), 0
	for {
		if _, err := conn.Write(out); err != nil {
			return
		}
		out = out[:0]
		n, err := conn.Read(buffer[end:])
		if err != nil {
			return
		}
		end += n
		at := 0
		for end-at >= 8 {
			size := 8 + int(binary.LittleEndian.Uint32(buffer[at:]))
			if end-at < size {
				break
			}
			if buffer[at+4] == 4 {
				count.Add(1)
				out = append(out, request(binary.LittleEndian.Uint16(buffer[at+6:]))...)
			}
			at += size
		}
		end = copy(buffer, buffer[at:end])
	}
}

func unix(flight int, count *atomic.Int64) *exec.Cmd {
	listener, folder := listen()
	command := start(listener)
	wanted := []byte("GET /user/42 HTTP/1.1\r\nhost: test.local\r\nuser-agent: bench\r\naccept: */*\r\n" +
		"accept-encoding: gzip, br\r\nx-forwarded-for: 127.0.0.1\r\nx-request-id: req-1\r\n\r\n")
	var clients sync.WaitGroup
	for i := 0; i < flight; i++ {
		conn, err := net.Dial("unix", filepath.Join(folder, "s"))
		if err != nil {
			log.Fatal(err)
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			buffer := make([]byte, 1<<16)
			for {
				if _, err := conn.Write(wanted); err != nil {
					return
				}
				for end := 0; !bytes.HasSuffix(buffer[:end], answer); {
					n, err := conn.Read(buffer[end:])
					if err != nil {
						return
					}
					end += n
				}
				count.Add(1)
			}
		}()
	}
	listener.Close()
	go func() { clients.Wait(); os.RemoveAll(folder) }()
	return command
}

func processorTime(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		log.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / ticksPerSecond
}

// warm is microseconds of the service's processor time for each exchange, and exchanges in a second.
func warm(v variant, flight int, seconds float64) (micros, rate float64) {
	var count atomic.Int64
	command := v.run(flight, &count)
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	time.Sleep(700 * time.Millisecond) // warm-up
	cpu, n, begin := processorTime(command.Process.Pid), count.Load(), time.Now()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	done := float64(count.Load() - n)
	return (processorTime(command.Process.Pid) - cpu) * 1e6 / done, done / time.Since(begin).Seconds()
}

// cold is the milliseconds until the first answer, and those of processor time until then.
func cold(v variant) (wall, cpu float64) {
	var count atomic.Int64
	begin := time.Now()
	command := v.run(1, &count)
	for count.Load() == 0 {
		time.Sleep(50 * time.Microsecond)
	}
	wall = time.Since(begin).Seconds() * 1e3
	_ = command.Process.Kill()
	_ = command.Wait()
	used := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	return wall, used.Seconds() * 1e3
}

func median(values []float64) float64 {
	sort.Float64s(values)
	return values[len(values)/2]
}

func main() {
	if os.Getenv("BENCH_SERVICE") != "" {
		serve()
		return
	}
	flight := flag.Int("flight", 64, "exchanges in flight")
	seconds := flag.Float64("seconds", 2, "of each measurement")
	rounds := flag.Int("rounds", 5, "rounds, in which variants alternate")
	starts := flag.Int("starts", 20, "cold starts of each")
	flag.Parse()
	log.SetOutput(io.Discard)
	variants := []variant{{"net/http, Unix socket", unix}, {"pipe, shared", pipe("shared")}, {"pipe, own", pipe("own")}}
	ratios := map[string][]float64{}
	for round := 1; round <= *rounds; round++ {
		var base float64
		for _, v := range variants {
			micros, rate := warm(v, *flight, *seconds)
			if base == 0 {
				base = micros
			}
			ratios[v.name] = append(ratios[v.name], micros/base)
			fmt.Printf("round %d  %-22s %6.2f µs/exchange  %6.0f/s  %.2f of net/http\n", round, v.name, micros, rate, micros/base)
		}
	}
	for _, v := range variants {
		fmt.Printf("median   %-22s %.2f of net/http\n", v.name, median(ratios[v.name]))
	}
	walls, cpus := map[string][]float64{}, map[string][]float64{}
	for i := 0; i < *starts; i++ {
		for _, v := range variants[:2] {
			wall, cpu := cold(v)
			walls[v.name], cpus[v.name] = append(walls[v.name], wall), append(cpus[v.name], cpu)
		}
	}
	for _, v := range variants[:2] {
		if *starts > 0 {
			fmt.Printf("cold     %-22s %.1f ms to the first answer, %.1f ms of processor time\n", v.name, median(walls[v.name]), median(cpus[v.name]))
		}
	}
}
