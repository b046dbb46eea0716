package bulk

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnreadableRecords reads records that are no CSV, one of them with nothing
// readable before its mistake.
func TestUnreadableRecords(t *testing.T) {
	const input = "1,a\nx\"y,b\n2,\"a\"b\n3,c\n"
	var lines []int
	im := &importer{o: ImportOptions{Rejected: func(r Reject) error {
		lines = append(lines, r.Line)
		return nil
	}}}
	in := csv.NewReader(strings.NewReader(input))
	in.FieldsPerRecord = -1
	ck, eof, err := im.readChunk(in)
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
