package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// examination is one run of all checks.
type examination struct {
	*check.Report
	settings *config.Config
	base     *Base
	log      *slog.Logger
	// running describes the server on the data folder, as its control file does; zero: none.
	running Running
	// server calls that server; nil: none responds. serverErr is why this is not known.
	server    *api.Client
	serverErr error
}

// Examine checks an installation: each part by the checks of its package. It adds to the report
// what is fine and what is not.
func Examine(ctx context.Context, c *config.Config, version string, r *check.Report) {
	r.Explain = Explain
	e := &examination{Report: r, settings: c, log: slog.New(slog.DiscardHandler)}
	e.checkFolder()
	store.CheckSpace(r, c.Data)
	e.checkUpgrade()
	e.checkService(ctx)
	seal.CheckKey(r, c.Secret, c.Data, HasData(c))
	e.checkCertificate(time.Now())
	e.checkSpeech(ctx)
	e.checkTraces(ctx)
	e.checkServer(ctx)
	e.checkPublicURL(ctx)
	if !HasData(c) && !FolderUsed(c.Data) {
		r.Warn(store.CheckName.With(), check.NothingYet.With(), check.AdviceBegin.With(r.Flags))
		return
	}
	var err error
	if e.base, err = OpenBase(ctx, c, version, e.log); err != nil {
		e.reportOpenError(err)
		return
	}
	defer e.base.Close() //nolint:errcheck // nothing was written
	e.server, e.serverErr = ConnectRunning(ctx, c, r.Lang)
	e.checkData(ctx)
}

// checkData checks what is in the database.
func (e *examination) checkData(ctx context.Context) {
	b := e.base
	store.CheckDatabase(ctx, e.Report, b.Store, storeOptions(e.settings, b.Version))
	e.checkVersion(ctx)
	e.checkSecrets()
	e.checkHTTPS(ctx)
	address, unencrypted := e.consoleAddress()
	account.CheckPeople(ctx, e.Report, b.Store, address, unencrypted)
	if strings.HasPrefix(e.settings.PublicURL, "https://") && !e.settings.OIDC.Only {
		b.Accounts.CheckSecondSteps(ctx, e.Report)
	}
	e.checkOIDC(ctx)
	e.checkRelays(ctx)
	store.CheckAudit(ctx, e.Report, b.Store)
	store.CheckClock(ctx, e.Report, b.Store, time.Now())
	e.checkBus(ctx)
	b.Registry.CheckBots(ctx, e.Report, e.botStates())
	e.checkTools(ctx)
	e.checkSpeechEngines(ctx)
	e.checkBoards(ctx)
	e.checkNodes(ctx)
	points, err := LearnOptions(b, e.log)
	learn.Check(ctx, e.Report, points, err, b.Registry)
	e.checkAnki(ctx)
}

// reportOpenError reports why the data could not be opened.
func (e *examination) reportOpenError(err error) {
	_, gone := errors.AsType[DataGoneError](err)
	switch {
	case IsSecretWrong(err):
		e.Error(seal.CheckName.With(), err, seal.AdviceLost.With())
	case gone:
		e.Error(store.CheckName.With(), err, i18n.Message("Correct the address, or restore a backup.").With())
	default:
		store.ReportOpenError(e.Report, storeOptions(e.settings, ""), err)
	}
}

// HasData reports whether there is data to open: a database server, or a file. It creates nothing,
// because the folder may be a misspelt one.
func HasData(c *config.Config) bool {
	if c.Database.URL != "" {
		return true
	}
	_, err := os.Stat(filepath.Join(c.Data, store.FileName))
	return !errors.Is(err, fs.ErrNotExist)
}
