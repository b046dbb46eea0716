package store_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

const killWriters = 4

func killTable() *schema.Table {
	return vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int), vtest.Col("v", cqltype.Bigint))
}

func killOptions(dir string) store.Options {
	return store.Options{DataDirs: []string{dir + "/d0", dir + "/d1"}, CacheBytes: 4 << 20, MemtableBytes: 256 << 10}
}

// TestMain is also the writer that TestKilledWriterLosesNothing starts and kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv("VARVE_TEST_KILL_DIR"); dir != "" {
		from, err := strconv.Atoi(os.Getenv("VARVE_TEST_KILL_FROM"))
		if err == nil {
			err = writeUntilKilled(dir, from)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled inserts and deletes numbered rows, each writer its own,
// and prints each as soon as it is acknowledged: "+ writer row" or "- writer row".
func writeUntilKilled(dir string, from int) error {
	st, err := store.Open(tContext, killOptions(dir))
	if err != nil {
		return err
	}
	tab := killTable()
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make(chan error, killWriters)
	for w := range killWriters {
		k, err := store.KeyOf(tab, [][]byte{be32(w)})
		if err != nil {
			return err
		}
		wg.Go(func() {
			for i := from; ; i++ {
				what := "+"
				b := st.NewBatch(1)
				b.Row(tab, k, [][]byte{be32(i)}).Set(tab.Columns["v"], int64(i), 0, be64(int64(i)))
				if i%3 == 0 { // and one that is gone at once
					what = "-"
					b.Row(tab, k, [][]byte{be32(i)}).Delete(int64(i))
				}
				if err := applyWait(st, b, i%2 == 0); err != nil {
					errs <- err
					return
				}
				mu.Lock()
				fmt.Printf("%s %d %d\n", what, w, i)
				mu.Unlock()
			}
		})
	}
	return <-errs
}

// TestKilledWriterLosesNothing runs a writer as a process of its own, ends it
// with SIGKILL at a random moment, opens the store and looks for everything
// that was acknowledged; then goes on with the same store.
func TestKilledWriterLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rounds := 4
	if d := soak(t, 0); d > 0 {
		rounds = max(rounds, int(d/(300*time.Millisecond)))
	}
	acked := map[[2]int]bool{} // writer and row: live?
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 9))
	from := 1
	for range rounds {
		next, err := killRound(exe, dir, from, r, acked)
		if err != nil {
			t.Fatal(err)
		}
		from = next
		checkKilled(t, dir, acked)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d acknowledged writes over %d kills", len(acked), rounds)
}

// killRound returns a row number past all that the writer may have begun.
func killRound(exe, dir string, from int, r *rand.Rand, acked map[[2]int]bool) (int, error) {
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), "VARVE_TEST_KILL_DIR="+dir, "VARVE_TEST_KILL_FROM="+strconv.Itoa(from))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	killAfter := 1 + r.IntN(1500) // acknowledgements
	kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	next, lines := from, 0
	in := bufio.NewScanner(out)
	for in.Scan() {
		var what string
		var w, i int
		if _, err := fmt.Sscanf(in.Text(), "%s %d %d", &what, &w, &i); err != nil {
			break // cut off by the kill
		}
		acked[[2]int{w, i}] = what == "+"
		next = max(next, i+1)
		if lines++; lines == killAfter {
			if err := cmd.Process.Kill(); err != nil {
				return 0, err
			}
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if lines < killAfter || !errors.As(err, &exit) || exit.ExitCode() != -1 {
		return 0, fmt.Errorf("writer ended by itself after %d writes: %v: %s", lines, err, stderr.String())
	}
	return next + 1, nil
}

func checkKilled(t *testing.T, dir string, acked map[[2]int]bool) {
	t.Helper()
	st := mustOpen(t, killOptions(dir))
	tab := killTable()
	found := map[[2]int]bool{}
	v := st.View(store.ReadOptions{NowSec: 1, Stats: &store.ReadStats{}})
	rows := v.Range(tab, store.TokenRange{StartUnbounded: true, EndUnbounded: true}, store.RowQuery{}, nil)
	for rows.NextPartition() {
		w := int(binary.BigEndian.Uint32(rows.KeyComponents()[0]))
		for rows.Next() {
			i := int(binary.BigEndian.Uint32(rows.Row().Clustering()[0]))
			if got := rows.Row().Value(tab.Columns["v"]); string(got) != string(be64(int64(i))) {
				t.Errorf("writer %d row %d has the value %x", w, i, got)
			}
			found[[2]int{w, i}] = true
		}
	}
	if err := errors.Join(rows.Close(), v.Close(), st.Close()); err != nil {
		t.Fatal(err)
	}
	for id, live := range acked {
		if found[id] != live {
			t.Errorf("writer %d row %d: acknowledged live=%v, found=%v", id[0], id[1], live, found[id])
		}
	}
	for id := range found {
		if id[1]%3 == 0 {
			t.Errorf("writer %d row %d was deleted in the batch that wrote it", id[0], id[1])
		}
	}
}
