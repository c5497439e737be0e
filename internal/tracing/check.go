package tracing

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
)

const (
	msgCheck        = i18n.Message("Traces")
	msgCheckGood    = i18n.Message("%s takes them")
	msgCheckAway    = i18n.Message("%s does not answer: %s")
	msgCheckKey     = i18n.Message("%s refuses the headers (%s)")
	msgCheckRefused = i18n.Message("%s does not take traces (%s)")

	adviceKey     = i18n.Message("Set otlp.headers to what the collector wants, such as Authorization=Bearer KEY.")
	adviceAddress = i18n.Message("Set otlp.url to the address of the collector for OTLP over HTTP, usually on port 4318; 4317 is gRPC, which is not used.")
	adviceAway    = i18n.Message("Start the collector, or correct otlp.url: OTLP over HTTP is usually on port 4318.")
)

// Check checks whether the collector takes traces, by sending it none.
func Check(ctx context.Context, r *check.Report, o Options) {
	if o.URL == "" {
		return
	}
	name := msgCheck.With()
	to := newTarget(o)
	defer to.client.CloseIdleConnections()
	_, err := to.post(ctx, nil)
	status, answered := errors.AsType[*statusCode](err)
	switch {
	case err == nil:
		r.OK(name, msgCheckGood.With(shown(o.URL)))
	case !answered:
		r.Fail(name, msgCheckAway.With(shown(o.URL), check.SingleLine(r.Explained(err).Error())), adviceAway.With())
	case status.code == http.StatusUnauthorized || status.code == http.StatusForbidden:
		r.Fail(name, msgCheckKey.With(shown(o.URL), check.Foreign(status.Error())), adviceKey.With())
	default:
		r.Fail(name, msgCheckRefused.With(shown(o.URL), check.Foreign(status.Error())), adviceAddress.With())
	}
}

// shown returns an address without its path, which may have a key of the collector's owner.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}
