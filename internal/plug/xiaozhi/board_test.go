package xiaozhi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
)

// Ten new boards with all firmware versions, with and without a serial number, send OTA requests at
// once: each shows a code, upgrades its firmware after approval, and observes no violation.
func TestBoards(t *testing.T) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "bread-compact-wifi-9.9.9.bin"), []byte(strings.Repeat("x", 1<<20)),
		0o600))
	r := newRig(t, func(o *xiaozhi.DiscoveryOptions) { o.FirmwareFolder = folder })
	var wg sync.WaitGroup
	for i := range 10 {
		profile := sim.Profiles()[i%len(sim.Profiles())]
		opt := sim.Options{
			OTA: r.URL + "/xiaozhi/ota/", MAC: fmt.Sprintf("aa:bb:cc:dd:ee:%02x", i),
			Name: "bread-compact-wifi", Lang: "en-US",
			Profile: profile, Scale: 0.02, Slack: 20 * time.Second,
		}
		if i%3 == 0 {
			opt.Serial, opt.Key = strings.Repeat("S", 32), []byte("k")
		}
		if i%2 == 0 {
			opt.OTA = r.URL + "/xiaozhi/ota"
		}
		upgraded := false
		opt.OnEvent = func(e sim.Event) {
			switch e.Kind {
			case sim.EventCode:
				if _, err := r.accounts.ApproveDevice(ctx, account.NewDevice{Person: r.person,
					Code: e.Text}); err != nil {
					t.Errorf("board %d: %v", i, err)
				}
			case sim.EventUpgrade:
				upgraded = e.Text == "9.9.9"
			}
		}
		b := sim.New(opt)
		wg.Go(func() {
			defer b.Close()
			if err := b.Boot(ctx); err != nil {
				t.Errorf("board %d: %v", i, err)
			}
			if report := b.Report(); len(report.Violations) > 0 || report.Boots != 1 {
				t.Errorf("board %d: %+v", i, report)
			}
			if !upgraded {
				t.Errorf("board %d has its old firmware", i)
			}
		})
	}
	wg.Wait()
	mine, err := r.db.Devices.Page(ctx, 0, 100)
	must(t, err)
	for _, d := range mine {
		if d.Version != "9.9.9" {
			t.Errorf("%+v", d)
		}
	}
	if len(mine) != 10 {
		t.Errorf("%d boards", len(mine))
	}
}
