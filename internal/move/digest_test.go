package move

import "testing"

// The expected sums are PostgreSQL's hashtextextended(text, seed).
func TestHashBytes(t *testing.T) {
	for _, c := range []struct {
		text string
		seed uint64
		want int64
	}{
		{"", 0, -6939563903564495251},
		{"", digestSeed, -8608798882613573075},
		{"a", 0, 3591986179850072241},
		{"a", digestSeed, 1961673267867896769},
		{"abcdefgh", 0, -8882191227074733005},
		{"abcdefgh", digestSeed, 8508437297458193624},
		{"abcdefghi", 0, -3278210106038014113},
		{"abcdefghi", digestSeed, -9025094172463107302},
		{"abcdefghijk", 0, 3112909444737856467},
		{"abcdefghijk", digestSeed, 5516047983074428870},
		{"abcdefghijkl", 0, -7556637188122330412},
		{"abcdefghijkl", digestSeed, -1777750519416226780},
		{"abcdefghijklm", 0, 8871624171452417744},
		{"abcdefghijklm", digestSeed, 801460364404626875},
		{"the quick brown fox jumps over the lazy dog", 0, -6494288192639172655},
		{"the quick brown fox jumps over the lazy dog", digestSeed, 6106773411209705479},
	} {
		if got := int64(HashBytes([]byte(c.text), c.seed)); got != c.want {
			t.Errorf("%q: %d, want %d", c.text, got, c.want)
		}
	}
}
