package i18n_test

import (
	"fmt"
	"slices"
	"testing"

	"patchbay/internal/i18n"
)

// Names are sorted as readers of each language expect it.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		lang i18n.Lang
		want []string
	}{
		{"en", []string{"2nd floor", "Ärger", "attic", "Bath", "bath", "Zoo"}},
		{"zh", []string{"Bath", "厨房", "客厅", "书房", "卧室", "阳台", "囍"}},
		{"ja", []string{"キッチン", "ダイニング", "トイレ", "居間", "寝室", "台所"}},
	} {
		for shift := range c.want {
			got := append(slices.Clone(c.want[shift:]), c.want[:shift]...)
			slices.SortFunc(got, c.lang.Compare)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: %v, want %v", c.lang, got, c.want)
			}
		}
	}
}
