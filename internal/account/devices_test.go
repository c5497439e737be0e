package account_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

const mac, uuid1, uuid2 = "aa:bb:cc:dd:ee:ff", "11111111-1111-4111-8111-111111111111",
	"22222222-2222-4222-8222-222222222222"

func board(client string) store.DeviceCall {
	return store.DeviceCall{Kind: "xiaozhi", Hardware: mac, Client: client, Article: "bread", Version: "2.4.2"}
}

func id(client string) account.DeviceID {
	return account.DeviceID{Kind: "xiaozhi", Hardware: mac, Client: client}
}

// people adds two people; the first has a bot.
func people(t *testing.T, s *account.Service, db *store.DB) (ada, bob string, bot int64) {
	t.Helper()
	a, err := s.AddPerson(ctx, "ada", "", "en", "")
	must(t, err)
	b, err := s.AddPerson(ctx, "bob", account.RoleMember, "en", "")
	must(t, err)
	added, err := db.Bots.Add(ctx, store.Bot{Owner: a.ID, Name: "one", Kind: "echo", Settings: []byte(`{}`),
		Created: time.Now()})
	must(t, err)
	return a.ID, b.ID, added.Number
}

func TestDeviceCode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, c := service(t, o)
		ada, bob, bot := people(t, s, db)
		d, code, err := s.DeviceSeen(ctx, board(uuid1))
		must(t, err)
		if len(code) != 6 || d.CodeHash == code || strings.Contains(fmt.Sprintf("%+v", d), code) {
			t.Fatalf("code %q of %+v", code, d)
		}
		// The code stays the same, even after a restart, until it is about to expire.
		box, err := seal.New(strings.Repeat("5e", 32))
		must(t, err)
		c.t = c.t.Add(account.DeviceCodeLife - 3*time.Minute)
		_, again, err := account.New(db, box, c.now).DeviceSeen(ctx, board(uuid1))
		must(t, err)
		if again != code {
			t.Fatalf("first %q, then %q", code, again)
		}
		c.t = c.t.Add(time.Second)
		_, next, err := s.DeviceSeen(ctx, board(uuid1))
		must(t, err)
		if next == code {
			t.Fatal("the code is shown until it has expired")
		}
		// With another secret the earlier code is unknown, and the device gets a new one.
		other, err := seal.New(strings.Repeat("a1", 32))
		must(t, err)
		_, code, err = account.New(db, other, c.now).DeviceSeen(ctx, board(uuid1))
		must(t, err)
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: code})
		wantErr(t, err, account.ErrCodeUnknown)
		_, code, err = s.DeviceSeen(ctx, board(uuid1))
		must(t, err)

		for _, wrong := range []string{"", "12345", "1234567", "abcdef", "１２３４５６", next} {
			if wrong == code {
				continue
			}
			_, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: wrong})
			wantErr(t, err, account.ErrCodeUnknown)
		}
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: bob, Code: code, Bot: bot})
		wantErr(t, err, account.ErrNoBot)
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: code, Name: "a\nb"})
		if err == nil {
			t.Fatal("a name with a line break was taken")
		}
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: code, Room: "a\nb"})
		wantErr(t, err, account.ErrRoomControl)
		d, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: code[:3] + " " + code[3:], Bot: bot,
			Room: " hall "})
		must(t, err)
		if d.Name != "bread eeff" || d.Room != "hall" || d.Owner != ada || d.Bot != bot || !d.IsApprovedClient(uuid1) {
			t.Fatalf("approved %+v", d)
		}
		if _, code, err := s.DeviceSeen(ctx, board(uuid1)); err != nil || code != "" {
			t.Errorf("an approved board shows %q: %v", code, err)
		}
		// A second device with the same generated name gets a different one. A requested name is
		// not changed.
		twin := board(uuid2)
		twin.Hardware = "00:00:00:00:ee:ff"
		_, code, err = s.DeviceSeen(ctx, twin)
		must(t, err)
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: code, Name: "bread eeff"})
		wantErr(t, err, account.ErrDeviceName)
		d, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: code})
		must(t, err)
		if d.Name != "bread eeff 2" {
			t.Errorf("the twin is %q", d.Name)
		}
		wantErr(t, s.RenameDevice(ctx, d.Number, "bread eeff"), account.ErrDeviceName)
		must(t, s.RenameDevice(ctx, d.Number, " hall "))
		wantErr(t, s.SetDeviceRoom(ctx, d.Number, strings.Repeat("房", 61)), account.ErrRoomLong)
		must(t, s.SetDeviceRoom(ctx, d.Number, " "+strings.Repeat("房", 60)+" "))
		must(t, s.SetDeviceRoom(ctx, d.Number, " "))
		wantErr(t, s.SetDeviceRoom(ctx, 99, ""), store.ErrNotFound)
		wantErr(t, s.BindDevice(ctx, d.Number, 99), account.ErrNoBot)
		must(t, s.BindDevice(ctx, d.Number, bot))
		must(t, s.BindDevice(ctx, d.Number, 0))
		wantErr(t, s.BindDevice(ctx, 99, 0), store.ErrNotFound)

		// A device that claims the board's identity gets a code, which only the board's owner may
		// use.
		d, code, err = s.DeviceSeen(ctx, board(uuid2))
		must(t, err)
		if code == "" || d.Owner != ada || !d.IsApprovedClient(uuid1) {
			t.Fatalf("a claim: %q %+v", code, d)
		}
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: bob, Code: code})
		wantErr(t, err, account.ErrDeviceTaken)
		d, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: code})
		must(t, err)
		if d.Name != "bread eeff" || !d.IsApprovedClient(uuid2) || d.Bot != bot {
			t.Errorf("approved again: %+v", d)
		}
	})
}

func TestDeviceGuesses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, c := service(t, o)
		ada, bob, _ := people(t, s, db)
		_, code, err := s.DeviceSeen(ctx, board(uuid1))
		must(t, err)
		tries := 0
		for {
			_, err = s.ApproveDevice(ctx, account.NewDevice{Person: bob, Code: "x"})
			if errors.Is(err, account.ErrTooManyTries) {
				break
			}
			wantErr(t, err, account.ErrCodeUnknown)
			if tries++; tries > 100 {
				t.Fatal("everybody may guess for ever")
			}
		}
		if tries != 20 {
			t.Errorf("%d tries", tries)
		}
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: bob, Code: code})
		wantErr(t, err, account.ErrTooManyTries)
		c.t = c.t.Add(11 * time.Minute)
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: bob, Code: "x"})
		wantErr(t, err, account.ErrCodeUnknown)
		_, err = s.ApproveDevice(ctx, account.NewDevice{Person: ada, Code: code})
		must(t, err)
	})
}

func TestDeviceCredentials(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, c := service(t, o)
		ada, _, _ := people(t, s, db)
		approve := func(hardware, client string) store.Device {
			b := board(client)
			b.Hardware = hardware
			_, code, err := s.DeviceSeen(ctx, b)
			must(t, err)
			d, err := s.ApproveByCode(ctx, account.NewDevice{Person: ada, Code: code})
			must(t, err)
			return d
		}
		d, neighbour := approve(mac, uuid1), approve("aa:bb:cc:dd:ee:00", uuid1)
		socket, login, vision := s.SocketToken(d), s.MQTTLogin(d, "192.0.2.1"), s.VisionToken(d,
			"session.1", time.Minute)

		socketOf := func(i account.DeviceID, token string) error { _, err := s.CheckSocket(ctx, i, token); return err }
		loginOf := func(l account.MQTTLogin) error { _, err := s.CheckMQTT(ctx, "xiaozhi", l); return err }
		visionOf := func(i account.DeviceID, token string) error {
			_, _,
				err := s.CheckVision(ctx, i, token)
			return err
		}
		good := func(what string) {
			t.Helper()
			got, err := s.CheckSocket(ctx, id(uuid1), socket)
			if err != nil || got.Number != d.Number {
				t.Fatalf("%s: socket: %+v %v", what, got, err)
			}
			if got, err = s.CheckMQTT(ctx, "xiaozhi", login); err != nil || got.Number != d.Number {
				t.Fatalf("%s: mqtt: %+v %v", what, got, err)
			}
			if got, session, err := s.CheckVision(ctx, id(uuid1), vision); err != nil || got.Number != d.Number ||
				session != "session.1" {
				t.Fatalf("%s: vision: %+v %q %v", what, got, session, err)
			}
		}
		bad := func(what string) {
			t.Helper()
			for _, err := range []error{socketOf(id(uuid1), socket), loginOf(login), visionOf(id(uuid1), vision)} {
				if !errors.Is(err, account.ErrUnknown) || !account.Refused(err) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		good("fresh")
		if login.ClientID != "GID_patchbay@@@aa_bb_cc_dd_ee_ff@@@"+uuid1 {
			t.Errorf("client id %q", login.ClientID)
		}
		next := account.DeviceID{Kind: "xiaozhi", Hardware: neighbour.Hardware, Client: uuid1}
		unknown := account.DeviceID{Kind: "xiaozhi", Hardware: "00:00:00:00:00:00", Client: uuid1}
		for what, err := range map[string]error{
			"another client":       socketOf(id(uuid2), socket),
			"another board":        socketOf(next, socket),
			"an unknown board":     socketOf(unknown, socket),
			"another kind":         socketOf(account.DeviceID{Kind: "x", Hardware: mac, Client: uuid1}, socket),
			"a changed token":      socketOf(id(uuid1), "A"+socket[1:]),
			"a longer token":       socketOf(id(uuid1), socket+"0"),
			"a token without time": socketOf(id(uuid1), strings.Split(socket, ".")[0]),
			"an MQTT password":     socketOf(id(uuid1), login.Password),
			"a vision token":       socketOf(id(uuid1), vision),
			"a socket for vision":  visionOf(id(uuid1), socket),
			"vision elsewhere":     visionOf(next, vision),
			"another session":      visionOf(id(uuid1), vision+"0"),
			"no parts": loginOf(account.MQTTLogin{ClientID: "x", Username: login.Username,
				Password: login.Password}),
			"another group": loginOf(account.MQTTLogin{ClientID: strings.Replace(login.ClientID, "GID",
				"DIG", 1), Username: login.Username, Password: login.Password}),
			"another board's login": loginOf(account.MQTTLogin{ClientID: strings.Replace(login.ClientID, "_ff",
				"_00", 1), Username: login.Username, Password: login.Password}),
			"another user name": loginOf(account.MQTTLogin{ClientID: login.ClientID,
				Username: "", Password: login.Password}),
			"another password": loginOf(account.MQTTLogin{ClientID: login.ClientID, Username: login.Username,
				Password: "x"}),
		} {
			if !errors.Is(err, account.ErrUnknown) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, err := range []error{socketOf(id(uuid1), ""), visionOf(id(uuid1), ""),
			loginOf(account.MQTTLogin{ClientID: login.ClientID})} {
			wantErr(t, err, account.ErrNoKey)
		}

		c.t = c.t.Add(59 * time.Second)
		good("a minute less a second later")
		c.t = c.t.Add(time.Second)
		wantErr(t, visionOf(id(uuid1), vision), account.ErrExpired)
		c.t = c.t.Add(1000 * 24 * time.Hour)
		must(t, socketOf(id(uuid1), socket)) // boards that are never turned off
		must(t, loginOf(login))
		c.t = c.t.Add(-1001 * 24 * time.Hour)

		// A stranger's claim changes nothing until it is approved.
		_, code, err := s.DeviceSeen(ctx, board(uuid2))
		must(t, err)
		good("while somebody claims it")
		wantErr(t, socketOf(id(uuid2), s.SocketToken(store.Device{Number: d.Number, SecretVersion: 1, Hardware: mac,
			Client: uuid2})), account.ErrUnknown)
		_, err = s.ApproveByCode(ctx, account.NewDevice{Person: ada, Code: code})
		must(t, err)
		bad("after another client was approved")
		back := approve(mac, uuid1)
		bad("after the first was approved again")
		socket, login, vision = s.SocketToken(back), s.MQTTLogin(back, ""), s.VisionToken(back,
			"session.1", time.Minute)
		good("with new ones")
		must(t, db.Devices.Revoke(ctx, d.Number))
		bad("after they were revoked")
		must(t, db.Devices.Remove(ctx, d.Number))
		again := approve(mac, uuid1)
		bad("after it was removed")
		socket, login, vision = s.SocketToken(again), s.MQTTLogin(again, ""), s.VisionToken(again,
			"session.1", time.Minute)
		d = again
		good("in its second life")
		// Its number is different, even if the version of its secrets is the same.
		must(t, db.Devices.Remove(ctx, d.Number))
		if third := approve(mac, uuid1); third.SecretVersion != again.SecretVersion || third.Number == again.Number {
			t.Fatalf("second %+v, third %+v", again, third)
		}
		bad("after it was removed once more")
	})
}

func TestFindDevice(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, _ := service(t, o)
		ada, bob, _ := people(t, s, db)
		add := func(owner, hardware, name string) int64 {
			b := board(uuid1)
			b.Hardware = hardware
			d, code, err := s.DeviceSeen(ctx, b)
			must(t, err)
			if owner != "" {
				_, err = s.ApproveByCode(ctx, account.NewDevice{Person: owner, Code: code, Name: name})
				must(t, err)
			}
			return d.Number
		}
		kitchen := add(ada, mac, "kitchen")                  // 1
		add(bob, "aa:bb:cc:dd:ee:01", "kitchen")             // 2
		one := add(ada, "aa:bb:cc:dd:ee:02", "1")            // 3
		number := add(ada, "11:22:33:44:55:66", "x")         // 4
		like := add(bob, "aa:bb:cc:dd:ee:03", mac)           // 5
		add("", "aa:bb:cc:dd:ee:04", "")                     // 6
		his := add(bob, "aa:bb:cc:dd:ee:05", "aabbccddeeff") // 7
		for _, c := range []struct {
			owner, ref string
			want       int64
			err        error
		}{
			{ada, "kitchen", kitchen, nil},
			{ada, " kitchen\n", kitchen, nil},
			{ada, "Kitchen", 0, store.ErrNotFound},
			{"", "kitchen", 0, account.ErrDeviceVague},
			{"nobody", "kitchen", 0, store.ErrNotFound},
			{ada, "1", one, nil}, // a name takes precedence over a number
			{"", "1", one, nil},
			{ada, "3", one, nil},
			{"", "5", like, nil},
			{ada, "5", 0, store.ErrNotFound}, // bob's
			{ada, "AA-BB-CC-DD-EE-FF", kitchen, nil},
			{ada, "aabb.ccdd.eeff", kitchen, nil},
			{ada, "aabbccddeeff", kitchen, nil},
			{"", "aa_bb_cc_dd_ee_ff", kitchen, nil},
			{"", "aabbccddeeff", his, nil}, // a name takes precedence over an address
			{"", mac, like, nil},
			{ada, mac, kitchen, nil},
			{bob, "aa:bb:cc:dd:ee:02", 0, store.ErrNotFound},
			{ada, "112233445566", number, nil}, // as a number it matches no device
			{ada, "aabbccddeef", 0, store.ErrNotFound},
			{ada, "aabbccddeefg", 0, store.ErrNotFound},
			{"", "6", 0, store.ErrNotFound}, // without an owner
			{"", "aa:bb:cc:dd:ee:04", 0, store.ErrNotFound},
			{"", "", 0, store.ErrNotFound},
			{"", "0", 0, store.ErrNotFound},
			{"", "99999999999999999999", 0, store.ErrNotFound},
			{ada, "kit\x00chen", 0, store.ErrNotFound},
		} {
			d, err := s.FindDevice(ctx, c.owner, c.ref)
			if !errors.Is(err, c.err) || d.Number != c.want {
				t.Errorf("%q of %q: %d %v, want %d %v", c.ref, c.owner, d.Number, err, c.want, c.err)
			}
		}
	})
}
