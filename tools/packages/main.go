// Command packages makes packages of Linux distributions from a binary: .deb, .rpm and .apk.
//
//	go run -C tools/packages . -binary PATH -arch amd64 -version 1.2.3 -time SECONDS -out DIR
//
// It prints the paths of the packages. They have the program, a service file (systemd, or OpenRC in
// .apk), settings, completion, manual pages and licences; what is not the binary comes from the one
// that -host names, which has to run on this machine. The same arguments make the same bytes.
//
// It is a module of its own, since the writer of packages brings thirty other modules that the
// program does not need.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	var o options
	var seconds int64
	flag.StringVar(&o.Binary, "binary", "", "the `PROGRAM` to pack")
	flag.StringVar(&o.Host, "host", "", "a `PROGRAM` of the same version that runs here; default: -binary")
	flag.StringVar(&o.Arch, "arch", "amd64", "`ARCHITECTURE` of the program: amd64, arm64, arm7 or riscv64")
	flag.StringVar(&o.Version, "version", "", "`VERSION`, such as 1.2.3 or 1.2.3-rc.1")
	flag.StringVar(&o.Root, "root", filepath.Join("..", ".."), "`FOLDER` of the sources, for licence and changes")
	flag.StringVar(&o.Out, "out", ".", "`FOLDER` for the packages")
	flag.Int64Var(&seconds, "time", 0, "time of everything in the packages, in `SECONDS` since 1970")
	flag.Parse()
	o.Time = time.Unix(seconds, 0).UTC()
	if o.Binary == "" || o.Version == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	made, err := build(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		stop()
		os.Exit(1)
	}
	for _, path := range made {
		fmt.Println(path)
	}
}
