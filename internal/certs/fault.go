package certs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/acme"

	"patchbay/internal/i18n"
)

// Codes of why a certificate could not be got. They are stored.
const (
	faultAway      = "away"       // the authority does not answer
	faultRate      = "rate"       // it wants a pause
	faultConnect   = "connection" // it cannot connect to the name
	faultDNS       = "dns"        // it cannot resolve the name
	faultElsewhere = "elsewhere"  // something else answers under the name
	faultCAA       = "caa"        // the domain allows other authorities only
	faultName      = "name"       // it does not want the name
	faultAccount   = "account"    // it does not want the account
	faultCommand   = "command"    // the DNS command failed
	faultOffer     = "challenge"  // it does not offer the kind of challenge
	faultSlow      = "slow"       // it took too long
	faultOther     = "other"
)

const (
	msgAway         = i18n.Message("the certificate authority cannot be reached: %s")
	msgRate         = i18n.Message("the certificate authority wants a pause, as there were too many orders or failures: %s")
	msgConnectHTTP  = i18n.Message("the certificate authority could not reach http://%[1]s on port 80 from the internet: open port 80 in the firewall and forward it in the router to https.redirect, and see that the DNS of %[1]s has the address of this network (%[2]s)")
	msgConnectTLS   = i18n.Message("the certificate authority could not reach https://%[1]s on port 443 from the internet: open port 443 in the firewall and forward it in the router to listen, and see that the DNS of %[1]s has the address of this network (%[2]s)")
	msgDNS          = i18n.Message("the certificate authority found no usable DNS record for %[1]s: make an A or AAAA record with the public address of this network (%[2]s)")
	msgDNSRecord    = i18n.Message("the certificate authority did not find the TXT record of %[1]s: see that https.dns_command makes it, and give it more time with https.dns_wait (%[2]s)")
	msgElsewhere    = i18n.Message("the certificate authority reached another server at %[1]s: see that DNS, router and proxies lead its ports 80 and 443 here, also by IPv6 (%[2]s)")
	msgCAA          = i18n.Message("a CAA record of %[1]s or of a domain above does not allow this certificate authority: add it there (%[2]s)")
	msgName         = i18n.Message("the certificate authority gives no certificate for %[1]s: %[2]s")
	msgAccount      = i18n.Message("the certificate authority accepts no account: see https.email, https.eab_kid and https.eab_key (%s)")
	msgCommand      = i18n.Message("https.dns_command failed: %s")
	msgOffer        = i18n.Message("the certificate authority does not offer the challenge of https.challenge: %s")
	msgSlow         = i18n.Message("the certificate authority took too long; it may be busy")
	msgOther        = i18n.Message("the certificate authority gave no certificate: %s")
	maxDetail       = 400
	maxRateLimiting = 7 * 24 * time.Hour // of how long an authority may make us wait
)

// fault is why an order failed.
type fault struct {
	code, detail string
	wait         time.Duration // at least before the next attempt
}

// accountError is a refusal of the account.
type accountError struct{ err error }

func (e *accountError) Error() string { return e.err.Error() }
func (e *accountError) Unwrap() error { return e.err }

// noChallengeError means that the authority does not offer a kind of challenge.
type noChallengeError struct {
	kind    string
	offered []string
}

func (e *noChallengeError) Error() string {
	return fmt.Sprintf("%s is not among %s", e.kind, strings.Join(e.offered, ", "))
}

// acmeFaults maps the error types of RFC 8555 §6.7 to codes.
var acmeFaults = map[string]string{
	"rateLimited": faultRate, "connection": faultConnect, "tls": faultConnect, "dns": faultDNS,
	"unauthorized": faultElsewhere, "incorrectResponse": faultElsewhere, "caa": faultCAA,
	"rejectedIdentifier": faultName, "unsupportedIdentifier": faultName,
	"externalAccountRequired": faultAccount, "userActionRequired": faultAccount, "invalidContact": faultAccount,
	"unsupportedContact": faultAccount, "accountDoesNotExist": faultAccount,
}

// classify returns the fault of an error of an order.
func classify(err error) fault {
	if e, ok := errors.AsType[*commandError](err); ok {
		return fault{code: faultCommand, detail: brief(e.Error())}
	}
	if e, ok := errors.AsType[*noChallengeError](err); ok {
		return fault{code: faultOffer, detail: brief(e.Error())}
	}
	_, account := errors.AsType[*accountError](err)
	e := problemOf(err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case e != nil:
		f := fault{code: faultOther, detail: brief(e.Detail)}
		kind := e.ProblemType[strings.LastIndex(e.ProblemType, ":")+1:]
		if code := acmeFaults[kind]; code != "" {
			f.code = code
		}
		if f.code == faultElsewhere && strings.HasPrefix(e.Detail, "Failed to connect") {
			f.code = faultConnect // Pebble's, which has no better type for TLS-ALPN-01
		}
		if wait, limited := acme.RateLimit(e); limited {
			f.wait = min(max(wait, 0), maxRateLimiting)
		} else if account {
			f.code = faultAccount
		}
		if len(e.Subproblems) > 0 && f.code == faultOther {
			f.detail = brief(e.Subproblems[0].Detail)
		}
		return f
	case errors.Is(err, context.DeadlineExceeded) && !network:
		return fault{code: faultSlow}
	case network:
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return fault{code: faultAway, detail: brief(err.Error())}
	}
	return fault{code: faultOther, detail: brief(err.Error())}
}

// problemOf returns what the authority said, or nil if the error has another cause.
func problemOf(err error) *acme.Error {
	if a, ok := errors.AsType[*acme.AuthorizationError](err); ok {
		for _, err := range a.Errors {
			if e := problemOf(err); e != nil {
				return e
			}
		}
	}
	if o, ok := errors.AsType[*acme.OrderError](err); ok {
		return o.Problem
	}
	e, _ := errors.AsType[*acme.Error](err)
	return e
}

// brief makes a short line of what comes from outside.
func brief(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if r := []rune(text); len(r) > maxDetail {
		text = string(r[:maxDetail]) + "…"
	}
	return text
}

// text says what is wrong and what to do.
func (f fault) text(name, kind string) i18n.Text {
	switch f.code {
	case faultConnect:
		if kind == TLSALPN01 {
			return msgConnectTLS.With(name, f.detail)
		}
		return msgConnectHTTP.With(name, f.detail)
	case faultDNS, faultElsewhere:
		if kind == DNS01 {
			return msgDNSRecord.With(dnsName(name), f.detail)
		}
		if f.code == faultElsewhere {
			return msgElsewhere.With(name, f.detail)
		}
		return msgDNS.With(name, f.detail)
	case faultCAA:
		return msgCAA.With(name, f.detail)
	case faultName:
		return msgName.With(name, f.detail)
	case faultSlow:
		return msgSlow.With()
	}
	for code, message := range map[string]i18n.Message{faultAway: msgAway, faultRate: msgRate,
		faultAccount: msgAccount, faultCommand: msgCommand, faultOffer: msgOffer} {
		if f.code == code {
			return message.With(f.detail)
		}
	}
	return msgOther.With(f.detail)
}

// Challenges returns the kinds of challenges for the setting https.challenge, "auto" or one of
// them, in the order in which they are tried.
func Challenges(chosen string, hasCommand, hasHTTP bool) []string {
	switch {
	case chosen != "auto":
		return []string{chosen}
	case hasCommand:
		return []string{DNS01}
	case hasHTTP:
		return slices.Clone([]string{HTTP01, TLSALPN01})
	}
	return []string{TLSALPN01}
}
