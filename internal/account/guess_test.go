package account_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Correct codes are not guesses, neither in sequence nor concurrently, as when somebody sets up a
// hundred boards. Wrong ones count, however many are tried concurrently.
func TestRightCodesAreNoGuesses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, _ := service(t, o)
		ada, bob, _ := people(t, s, db)
		codes := make([]string, 100)
		for i := range codes {
			b := board(fmt.Sprintf("11111111-1111-4111-8111-%012d", i))
			b.Hardware = fmt.Sprintf("02:00:00:00:00:%02x", i)
			_, code, err := s.DeviceSeen(ctx, b)
			must(t, err)
			codes[i] = code
		}
		for i := range 19 { // one below the limit of wrong codes
			_, err := s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: fmt.Sprint("x", i)})
			wantErr(t, err, account.ErrCodeUnknown)
		}
		approve := func(code string) {
			if _, err := s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: code}); err != nil {
				t.Errorf("a right code: %v", err)
			}
		}
		for _, code := range codes[:50] {
			approve(code)
		}
		var all sync.WaitGroup
		for _, code := range codes[50:] {
			all.Go(func() { approve(code) })
		}
		all.Wait()
		_, err := s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: "x"})
		wantErr(t, err, account.ErrCodeUnknown)
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: "x"})
		wantErr(t, err, account.ErrTooManyTries)

		var looked atomic.Int32
		for range 200 {
			all.Go(func() {
				switch _, err := s.ApproveDevice(ctx, account.NewDevice{Person: bob, Code: "x"}); {
				case errors.Is(err, account.ErrCodeUnknown):
					looked.Add(1)
				case !errors.Is(err, account.ErrTooManyTries):
					t.Errorf("a wrong code: %v", err)
				}
			})
		}
		all.Wait()
		if n := looked.Load(); n != 20 {
			t.Errorf("%d wrong codes were looked at", n)
		}
	})
}
