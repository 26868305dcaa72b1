// etcd and the API server of Kubernetes as one program, so that they are linked once: the first argument says which of them it is.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 2 {
		os.Stderr.WriteString("usage: kubernetes etcd|kube-apiserver FLAGS\n")
		os.Exit(2)
	}
	name := os.Args[1]
	os.Args = os.Args[1:]
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	if name != "kube-apiserver" {
		os.Stderr.WriteString("unknown program: " + name + "\n")
		os.Exit(2)
	}
	os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
}
