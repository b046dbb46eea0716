package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"varve/internal/cqlwire"
)

// echo answers each kind of request with the frame that a real server once
// answered it with, only the stream id put in its place. What a kind is: the
// opcode and the start of the body, which for EXECUTE is the statement's id.
type echo struct {
	behind string
	mu     sync.RWMutex
	known  map[string][]byte
}

// kindBytes of a body tell what is asked: 2 of length and 16 of id.
const kindBytes = 18

// maxEchoFrame bounds a request.
const maxEchoFrame = 1 << 20

func serveEcho(ctx context.Context, addr, behind string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	go func() {
		<-ctx.Done()
		_ = l.Close()
	}()
	e := &echo{behind: behind, known: map[string][]byte{}}
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go func() {
			if err := e.serve(c); err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "echo:", err)
			}
			_ = c.Close()
		}()
	}
}

func (e *echo) serve(c net.Conn) error {
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)
	var real *bufio.ReadWriter
	var frame []byte
	for {
		var err error
		if frame, err = readFrame(r, frame[:0]); err != nil {
			return err
		}
		key := frame[4 : 5+min(len(frame)-cqlwire.HeaderSize, 0)]
		body := frame[cqlwire.HeaderSize:]
		if cqlwire.Opcode(frame[4]) != cqlwire.OpPrepare {
			body = body[:min(len(body), kindBytes)]
		}
		e.mu.RLock()
		answer := e.known[string(key)+string(body)]
		e.mu.RUnlock()
		if answer == nil || real == nil && cqlwire.Opcode(frame[4]) != cqlwire.OpExecute {
			// Connections are opened for real, so that what is learnt later can be asked.
			if real == nil {
				rc, err := net.Dial("tcp", e.behind)
				if err != nil {
					return err
				}
				defer func() { _ = rc.Close() }()
				real = bufio.NewReadWriter(bufio.NewReaderSize(rc, 64<<10), bufio.NewWriter(rc))
			}
			if answer, err = e.ask(real, frame); err != nil {
				return err
			}
			e.mu.Lock()
			e.known[string(key)+string(body)] = answer
			e.mu.Unlock()
		}
		// The version and flags, the stream of the request, and the rest.
		head := [4]byte{answer[0], answer[1], frame[2], frame[3]}
		if _, err := w.Write(head[:]); err != nil {
			return err
		}
		if _, err := w.Write(answer[4:]); err != nil {
			return err
		}
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

func (e *echo) ask(real *bufio.ReadWriter, frame []byte) ([]byte, error) {
	if _, err := real.Write(frame); err != nil {
		return nil, err
	}
	if err := real.Flush(); err != nil {
		return nil, err
	}
	return readFrame(real.Reader, nil)
}

func readFrame(r *bufio.Reader, buf []byte) ([]byte, error) {
	buf = append(buf, make([]byte, cqlwire.HeaderSize)...)
	if _, err := io.ReadFull(r, buf); err != nil {
		return buf, err
	}
	n := binary.BigEndian.Uint32(buf[5:9])
	if n > maxEchoFrame {
		return buf, fmt.Errorf("a frame of %d bytes", n)
	}
	if cap(buf) < cqlwire.HeaderSize+int(n) {
		buf = append(make([]byte, 0, cqlwire.HeaderSize+int(n)), buf...)
	}
	buf = buf[:cqlwire.HeaderSize+int(n)]
	_, err := io.ReadFull(r, buf[cqlwire.HeaderSize:])
	return buf, err
}

// startEcho runs the bare server as a process of its own.
func startEcho(ctx context.Context, addr, behind string) (pid int, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.Command(self, "--serve-echo", addr, "--echo-of", behind)
	cmd.Stderr = os.Stderr
	// It ends when this end of its input goes, however this process ends.
	if _, err := cmd.StdinPipe(); err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	for range 500 {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return cmd.Process.Pid, stop, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	return 0, nil, fmt.Errorf("the bare server does not listen on %s", addr)
}
