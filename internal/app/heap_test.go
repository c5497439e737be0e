package app

import "testing"

func TestHeapGrowth(t *testing.T) {
	for live, want := range map[uint64]uint64{0: 1500, 1 << 20: 1500, 10 << 20: 640, 64 << 20: 100, 1 << 30: 100} {
		if got := heapGrowth(live); got != want {
			t.Errorf("%d live bytes: %d %%, want %d %%", live, got, want)
		}
	}
}
