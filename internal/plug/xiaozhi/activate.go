package xiaozhi

import (
	"net/http"
	"time"
)

// activate tells a board whether its code has been entered. It ignores the body: the HMAC in it of
// boards with a serial number can only be checked by their maker, and py-xiaozhi wraps it.
func (d *Discovery) activate(w http.ResponseWriter, r *http.Request) {
	if d.activationGuard.Refuse(d.Address(r)) {
		d.refuse(w, r, d.metrics.activations, "too_many", http.StatusTooManyRequests)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)) // not always supported
	if _, err := readBody(r); err != nil {
		d.refuse(w, r, d.metrics.activations, "unreadable", http.StatusBadRequest)
		return
	}
	id, ok := DeviceFromRequest(r)
	if !ok {
		d.refuse(w, r, d.metrics.activations, "nobody", http.StatusBadRequest)
		return
	}
	approved, err := d.Accounts.DeviceApproved(r.Context(), id)
	switch {
	case err != nil:
		if r.Context().Err() == nil {
			d.Logger.ErrorContext(r.Context(), "it could not be seen whether a board is approved", "board", id.Hardware,
				"error", err)
		}
		d.refuse(w, r, d.metrics.activations, "failed", http.StatusServiceUnavailable)
	case approved:
		d.metrics.activations.WithLabelValues("approved").Inc()
		writeAnswer(w, http.StatusOK, []byte(`{"message":"approved"}`))
	default:
		// A board whose code has expired gets this too: it sends the next OTA request after some
		// more activation requests, sooner than after an error.
		d.metrics.activations.WithLabelValues("waiting").Inc()
		writeAnswer(w, http.StatusAccepted, []byte(`{"message":"not yet"}`))
	}
}
