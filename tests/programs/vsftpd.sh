#!/usr/bin/env bash
# vsftpd: each session is a process that limits its own address space to 200 MiB (setrlimit) before it serves. Clients list,
# download and upload, several at once.
. "$(dirname "$0")/common.sh"
need vsftpd vsftpd
need python3 python3
[ "$(id -u)" = 0 ] || skip "vsftpd is to be started by root"
. "$(dirname "$0")/servers.sh"
home=$(mktemp -d /tmp/freehold-vsftpd-XXXXXX) # anonymous users must come here, and may not write in it
trap 'end_server KILL; rm -rf "$home"' EXIT
mkdir -m 755 "$home/files" "$home/files/none"
mkdir -m 777 "$home/files/in"
chmod 755 "$home"
for i in $(seq 60); do head -c $((i * i * 500)) /dev/zero | tr '\0' 'x' >"$home/files/file-$i"; done
port=$(free_port)
cat >"$home/vsftpd.conf" <<CONF
listen=YES
listen_address=127.0.0.1
listen_port=$port
background=NO
anonymous_enable=YES
local_enable=NO
write_enable=YES
anon_upload_enable=YES
anon_umask=022
anon_root=$home/files
no_anon_password=YES
secure_chroot_dir=$home/files/none
pasv_address=127.0.0.1
one_process_model=NO
max_clients=30
CONF
cat >"$work/client.py" <<'PY'
import ftplib, hashlib, io, sys, threading

answers = [None] * 8


def run(number):
    ftp = ftplib.FTP()
    ftp.connect("127.0.0.1", int(sys.argv[1]), timeout=15)
    ftp.login()
    names = sorted(ftp.nlst("file-*"))
    digest = hashlib.sha256(" ".join(names).encode())
    for name in names[number % 3 :: 3]:
        ftp.retrbinary(f"RETR {name}", digest.update)
    ftp.storbinary(f"STOR in/{sys.argv[2]}-{number}", io.BytesIO(b"y" * 300000 * (number + 1)))
    digest.update(str(ftp.size(f"in/{sys.argv[2]}-{number}")).encode())
    ftp.quit()
    answers[number] = digest.hexdigest()


threads = [threading.Thread(target=run, args=(number,)) for number in range(len(answers))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("\n".join(str(answer) for answer in answers))
sys.exit(0 if all(answers) else 1)
PY
is_up() { python3 -c "import ftplib; ftplib.FTP().connect('127.0.0.1', $port, timeout=5)"; }
served() {
    start "$2" "$work/server.$1" vsftpd "$home/vsftpd.conf"
    until_ready "$work/server.$1" is_up
    [ -z "$2" ] || in_server
    timeout 40 python3 "$work/client.py" "$port" "$1" >"$work/vsftpd.$1" 2>"$work/client.$1" ||
        { tail -n 3 "$work/client.$1" "$work/server.$1"; [ -n "$2" ] || skip "vsftpd does not serve here"; die "a session failed"; }
    end_server TERM
}
served without ""
served with "$library"
same_answers vsftpd
