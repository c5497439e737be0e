package store

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
)

const (
	msgCheckSpace = i18n.Message("free space")
	msgFree       = i18n.Message("%.1f GiB")
	adviceSpace   = i18n.Message("Make room, or writes will fail.")
)

// CheckSpace checks that the disk of a folder is not full.
func CheckSpace(r *check.Report, folder string) {
	free, ok := FreeSpace(folder)
	if !ok {
		return // the folder is missing, or the system does not support it
	}
	name, found := msgCheckSpace.With(), msgFree.With(float64(free)/(1<<30))
	switch {
	case free < NoSpace:
		r.Fail(name, found, adviceSpace.With())
	case free < LittleSpace:
		r.Warn(name, found, adviceSpace.With())
	default:
		r.OK(name, found)
	}
}

// CheckName is the name of the check of the database.
const CheckName = i18n.Message("database")

const (
	msgDatabaseGood = i18n.Message("%s answers and is up to date (%s)")
	msgFileDamaged  = i18n.Message("the database is damaged: %s (%v)")
	msgFileLong     = i18n.Message("answers; its file is so large that %v were not enough to see whether it is whole")

	adviceUpgrade  = i18n.Message("Upgrade this program.")
	adviceDatabase = i18n.Message("See whether its address, its rights and the secret key are right.")
	adviceRuns     = i18n.Message("See whether it runs.")
	adviceDamaged  = i18n.Message("Stop the server, keep a copy of the file, and restore a backup: patchbay backup restore FILE%s. Without one, .recover of sqlite3 may save a part.")
	adviceLong     = i18n.Message("Stop the server, and run: sqlite3 %s \"PRAGMA integrity_check\"")
)

// ReportOpenError reports why the database could not be opened.
func ReportOpenError(r *check.Report, o Options, err error) {
	switch {
	case errors.Is(err, ErrNewer):
		r.Error(CheckName.With(), err, adviceUpgrade.With())
	case ClassifyError(err) == ErrDamaged:
		reportDamaged(r, o, err)
	default:
		r.Error(CheckName.With(), err, adviceDatabase.With())
	}
}

// reportDamaged reports a damaged database, of SQLite or PostgreSQL.
func reportDamaged(r *check.Report, o Options, err error) {
	cause := err
	for e := errors.Unwrap(cause); e != nil; e = errors.Unwrap(e) { // the advice is below
		cause = e
	}
	r.Fail(CheckName.With(), msgFileDamaged.With(o.location(), check.SingleLine(cause.Error())),
		adviceDamaged.With(r.Flags))
}

// location returns where the database is, for people.
func (o Options) location() string {
	if o.URL != "" {
		return "PostgreSQL"
	}
	return filepath.Join(o.Folder, FileName)
}

// wholeLimit is the timeout for checking the whole database file: enough for some GB.
const wholeLimit = 30 * time.Second

// CheckDatabase checks that an open database responds, can be written and is not damaged. Opening
// it has migrated it.
func CheckDatabase(ctx context.Context, r *check.Report, db *DB, o Options) {
	name, begin := CheckName.With(), time.Now()
	if err := db.Ping(ctx); err != nil {
		r.Error(name, err, adviceRuns.With())
		return
	}
	if err := db.TryWriting(ctx); err != nil {
		r.Error(name, err, adviceSpace.With())
		return
	}
	answered := check.Duration(time.Since(begin))
	limited, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	switch err := db.Check(limited); {
	case errors.Is(err, ErrDamaged):
		reportDamaged(r, o, err)
	case limited.Err() != nil:
		r.Warn(name, msgFileLong.With(wholeLimit), adviceLong.With(check.Quote(o.location())))
	case err != nil:
		r.Error(name, err, check.AdviceLog.With())
	default:
		r.OK(name, msgDatabaseGood.With(db.Dialect(), answered))
	}
}

const (
	// auditNewest is how many entries of a hash chain are verified; it takes some hundredths of a
	// second.
	auditNewest = 2000
	// auditPatience is the timeout for that on a slow machine.
	auditPatience = 10 * time.Second
)

const (
	msgCheckAudit  = i18n.Message("audit trail")
	msgAuditNewest = i18n.Message("the newest %d links are right")
	msgAuditBroken = i18n.Message("%d problem(s) in the newest links")
	adviceAudit    = i18n.Message("See which: patchbay audit verify%s")
)

// CheckAudit verifies the newest entries of the audit trail.
func CheckAudit(ctx context.Context, r *check.Report, db *DB) {
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	name := msgCheckAudit.With()
	s, err := db.Audit.Verify(ctx, AuditQuery{Newest: auditNewest})
	switch {
	case err != nil:
		r.Error(name, err, check.AdviceLog.With())
	case s.ProblemCount > 0:
		r.Fail(name, msgAuditBroken.With(s.ProblemCount), adviceAudit.With(r.Flags))
	default:
		r.OK(name, msgAuditNewest.With(s.Links))
	}
}

const (
	msgCheckClock  = i18n.Message("clock")
	msgClockBehind = i18n.Message("it is %s, which is before the newest record")
	adviceClock    = i18n.Message("Set it (NTP), or keys and invitations end too early or too late.")
)

// CheckClock checks that the clock has not gone back behind the latest record. Some seconds are
// tolerated, since several instances write.
func CheckClock(ctx context.Context, r *check.Report, db *DB, now time.Time) {
	const forgiven = time.Minute
	name := msgCheckClock.With()
	newest, err := db.Traces.Newest(ctx, "", now.AddDate(100, 0, 0), 1)
	shown := now.Format("2006-01-02 15:04:05 MST")
	switch {
	case err != nil:
		r.Error(name, err, check.AdviceLog.With())
	case len(newest) > 0 && newest[0].At.After(now.Add(forgiven)):
		r.Fail(name, msgClockBehind.With(shown), adviceClock.With())
	default:
		r.OK(name, check.Verbatim(shown))
	}
}
