package bulk

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// TestUnreadableRecords reads records that are no CSV, one of them with nothing
// readable before its mistake.
func TestUnreadableRecords(t *testing.T) {
	const input = "1,a\nx\"y,b\n2,\"a\"b\n3,c\n"
	var lines []int
	im := newImporter(ImportOptions{Rejected: func(r Reject) error {
		lines = append(lines, r.Line)
		return nil
	}}, nil, strings.NewReader(input))
	im.in.FieldsPerRecord = -1
	ck, eof, err := im.readChunk()
	if err != nil || !eof {
		t.Fatal(eof, err)
	}
	if d := cmp.Diff([][]string{{"1", "a"}, {"3", "c"}}, ck.records); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{2, 3}, lines); d != "" {
		t.Error(d)
	}
	if ck.unreadable != 2 || ck.rejects != 2 || ck.end != int64(len(input)) {
		t.Errorf("%+v", ck)
	}
}

// endless is input that never ends, and how much of it was read.
type endless struct {
	line string
	n    atomic.Int64
}

func (e *endless) Read(p []byte) (int, error) {
	at := e.n.Load()
	for i := range p {
		p[i] = e.line[(at+int64(i))%int64(len(e.line))]
	}
	e.n.Add(int64(len(p)))
	return len(p), nil
}

// A record that gets no answer stops the reading of the input, not its memory.
func TestStuckRecordBoundsReadingAhead(t *testing.T) {
	for _, line := range []string{"1,a\n", strings.Repeat("x", 2000) + ",b\n"} {
		in := &endless{line: line}
		im := newImporter(ImportOptions{Concurrency: 4}, nil, in)
		im.ahead = make(chan struct{}, 3)
		ctx, cancel := context.WithCancel(t.Context())
		var first sync.Once
		im.put = func(ctx context.Context, _ []string) (string, error) {
			stuck := false
			first.Do(func() { stuck = true })
			if !stuck {
				return "", nil
			}
			// Everything that may be read ahead has been once the last place is taken.
			for len(im.ahead) < cap(im.ahead) && ctx.Err() == nil {
				runtime.Gosched()
			}
			cancel()
			<-ctx.Done()
			return "", ctx.Err()
		}
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return im.feed(ctx, g) })
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if most := int64(cap(im.ahead)+1) * (chunkBytes + 4096); in.n.Load() > most {
			t.Errorf("%d bytes of records of %d read ahead, at most %d should be", in.n.Load(), len(line), most)
		}
	}
}

// A quote that is not closed ends the import before the memory does.
func TestRecordWithoutEnd(t *testing.T) {
	in := io.MultiReader(strings.NewReader("1,a\n2,\""), &endless{line: strings.Repeat("no end ", 100)})
	im := newImporter(ImportOptions{}, nil, in)
	im.limit.most = 1 << 20
	if _, _, err := im.readChunk(); err == nil || !strings.Contains(err.Error(), "is a quote not closed?") {
		t.Fatal(err)
	}
}
