package pg

import (
	"testing"

	"varve/internal/move"
)

// FuzzMessages: whatever comes as a message of the stream is decoded or
// refused, and a row that is told fits its table.
func FuzzMessages(f *testing.F) {
	rel := append([]byte("R\x00\x00\x00\x01public\x00a\x00d\x00\x02"), "\x01k\x00\x00\x00\x00\x17\xff\xff\xff\xff\x00v\x00\x00\x00\x00\x19\xff\xff\xff\xff"...)
	begin := append([]byte("B"), make([]byte, 20)...)
	insert := []byte("I\x00\x00\x00\x01N\x00\x02b\x00\x00\x00\x04\x00\x00\x00\x07b\x00\x00\x00\x01x")
	update := []byte("U\x00\x00\x00\x01K\x00\x02b\x00\x00\x00\x04\x00\x00\x00\x07nN\x00\x02b\x00\x00\x00\x04\x00\x00\x00\x08u")
	f.Add(rel, begin, insert, update)
	f.Add(rel, begin, []byte("D\x00\x00\x00\x01K\x00\x02b\x00\x00\x00\x04\x00\x00\x00\x07n"), []byte("T\x00\x00\x00\x01\x00\x00\x00\x00\x01"))
	f.Add(rel, begin, []byte("M\x01\x00\x00\x00\x00\x00\x00\x00\x01p\x00\x00\x00\x00\x01x"), append([]byte("C"), make([]byte, 25)...))
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		tab := &table{kind: "r", Table: move.Table{
			Schema: "public", Name: "a", Key: []int{0}, Columns: []move.Column{{Name: "k"}, {Name: "v"}},
		}, cols: []column{{nativeOID: 23, modifier: -1}, {nativeOID: 25, modifier: -1}}}
		st := &stream{side: &Side{opt: Options{Move: "m"}, tables: []*table{tab}}, rels: map[uint32]*bound{}}
		for _, m := range [][]byte{a, b, c, d} {
			if len(m) == 0 {
				continue
			}
			st.ready = st.events[:0]
			if st.message(m[0], m[1:]) != nil {
				return
			}
			for _, e := range st.ready {
				switch {
				case e.Table != 0:
				case e.Old != nil && len(e.Old) != 2, e.New != nil && len(e.New) != 2:
					t.Fatalf("%+v", e)
				case e.Op == move.Update && e.New == nil, e.Op == move.Delete && e.Old == nil, e.Op == move.Insert && e.New == nil:
					t.Fatalf("%+v", e)
				}
			}
		}
	})
}
