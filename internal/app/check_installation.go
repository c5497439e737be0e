package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/seal"
)

const (
	msgCheckFolder = i18n.Message("data folder")
	msgWritable    = i18n.Message("%s can be written")
	msgMissing     = i18n.Message("%s does not exist")

	adviceWritable = i18n.Message("Let the account that runs the server write there.")
	adviceDisk     = i18n.Message("Look after the disk.")
)

// checkFolder checks that the data folder is writable.
func (e *examination) checkFolder() {
	name, folder := msgCheckFolder.With(), e.settings.Data
	probe, err := os.CreateTemp(folder, ".doctor-*")
	if errors.Is(err, fs.ErrNotExist) {
		e.Warn(name, msgMissing.With(folder), check.AdviceBegin.With(e.Flags))
		return
	}
	if err != nil {
		e.Error(name, err, adviceWritable.With())
		return
	}
	defer os.Remove(probe.Name())
	if err := errors.Join(probe.Sync(), probe.Close()); err != nil {
		e.Error(name, err, adviceDisk.With())
		return
	}
	e.OK(name, msgWritable.With(folder))
}

const (
	msgCheckCert   = i18n.Message("certificate")
	msgCertUntil   = i18n.Message("is good until %s; its SHA-256 fingerprint is %s")
	msgCertExpired = i18n.Message("expired on %s")

	adviceCert      = i18n.Message("Renew it; a running server reads changed files by itself.")
	adviceCertFiles = i18n.Message("See whether tls.cert and tls.key are right.")
)

// expiryWarning is how long before its expiry a certificate is reported.
const expiryWarning = 14 * 24 * time.Hour

// checkCertificate checks the files of the TLS certificate.
func (e *examination) checkCertificate(now time.Time) {
	if e.settings.TLS.Cert == "" {
		return
	}
	name := msgCheckCert.With()
	pair, err := tls.LoadX509KeyPair(e.settings.TLS.Cert, e.settings.TLS.Key)
	if err != nil {
		e.Error(name, err, adviceCertFiles.With())
		return
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		e.Error(name, err, adviceCert.With())
		return
	}
	until, print := check.Time(leaf.NotAfter), wire.Fingerprint(leaf.Raw)
	switch {
	case now.After(leaf.NotAfter):
		e.Fail(name, msgCertExpired.With(until), adviceCert.With())
	case now.Add(expiryWarning).After(leaf.NotAfter):
		e.Warn(name, msgCertUntil.With(until, print), adviceCert.With())
	default:
		e.OK(name, msgCertUntil.With(until, print))
	}
}

const (
	msgOldSecretUsed = i18n.Message("the one that this instance starts with was replaced and holds until %s")
	msgHalfRotated   = i18n.Message("a change of the secret was begun on %s and has not ended")
	msgOldHolds      = i18n.Message("the old one holds until %s")

	adviceOldSecret = i18n.Message("Put the new one into the settings as secret (patchbay secret show --reveal%s), and restart.")
	adviceRotate    = i18n.Message("Run: patchbay secret rotate%s")
)

// checkSecrets checks whether a rotation of the secret is unfinished. With a single secret
// [seal.CheckKey] has reported everything.
func (e *examination) checkSecrets() {
	name, list := seal.CheckName.With(), e.base.Secrets.State()
	if at := e.base.Secrets.Pending(); !at.IsZero() {
		e.Warn(name, msgHalfRotated.With(check.Time(at)), adviceRotate.With(e.Flags))
		return
	}
	for _, s := range list[1:] {
		if s.Own && e.settings.Secret != "" {
			e.Warn(name, msgOldSecretUsed.With(check.Time(s.Until)), adviceOldSecret.With(e.Flags))
			return
		}
	}
	if len(list) > 1 {
		e.OK(name, msgOldHolds.With(check.Time(list[1].Until)))
	}
}
