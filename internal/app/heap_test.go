package app

import "testing"

func TestHeapGrowth(t *testing.T) {
	for live, want := range map[uint64]uint64{0: 2000, 1 << 20: 2000, 10 << 20: 640, 64 << 20: 100, 1 << 30: 100} {
		if got := heapGrowth(live); got != want {
			t.Errorf("%d live bytes: %d %%, want %d %%", live, got, want)
		}
	}
}
