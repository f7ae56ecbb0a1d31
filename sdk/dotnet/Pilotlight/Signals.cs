using System;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Pilotlight
{
    /// <summary>SIGTERM and SIGINT, by what the runtime has: names are looked up, because netstandard2.1 has none of
    /// them.
    /// </summary>
    internal static class Signals
    {
        private const int SigInt = 2, SigTerm = 15, LookMs = 1000;

        /// <summary>Calls `drain` at the first of them; `run` ends with the instance.</summary>
        internal static void OnEnd(Action drain, Task run)
        {
            try
            {
                if (!Posix(drain) && !Mono(drain)) Exit(drain, run);
            }
            catch (Exception error) when (error is TargetInvocationException || error is MemberAccessException)
            {
                Console.Error.WriteLine($"pilotlight: cannot catch SIGTERM: {error.Message}");
            }
        }

        /// <summary>.NET 6 and later.</summary>
        private static bool Posix(Action drain)
        {
            Type type = Type.GetType("System.Runtime.InteropServices.PosixSignalRegistration, System.Runtime.InteropServices");
            if (type == null) return false;
            MethodInfo create = type.GetMethod("Create");
            Type signal = create.GetParameters()[0].ParameterType, handler = create.GetParameters()[1].ParameterType;
            PropertyInfo cancel = handler.GetGenericArguments()[0].GetProperty("Cancel");
            Action<object> act = context =>
            {
                cancel.SetValue(context, true);
                drain();
            };
            Delegate typed = Delegate.CreateDelegate(handler, act.Target, act.Method);
            foreach (string name in new[] { "SIGTERM", "SIGINT" })
            {
                kept = new[] { kept, create.Invoke(null, new[] { Enum.Parse(signal, name), typed }) };
            }
            return true;
        }

        private static object kept; // a registration ends when it is collected

        /// <summary>Mono: by the library that Mono.Posix is made of, which takes 60 ms to load itself.</summary>
        private static bool Mono(Action drain)
        {
            if (Type.GetType("Mono.Runtime") == null) return false;
            try
            {
                var signals = new[] { Install(SigTerm), Install(SigInt) };
                new Thread(() =>
                {
                    // WaitAny does not see a signal that has come before it waits.
                    while (CountOf(signals[0]) + CountOf(signals[1]) == 0) WaitAny(signals, 2, LookMs, running);
                    drain();
                }) { IsBackground = true, Name = "pilotlight-signals" }.Start();
                return true;
            }
            catch (Exception error) when (error is DllNotFoundException || error is EntryPointNotFoundException)
            {
                return false;
            }
        }

        private static readonly Running running = () => 0;

        private delegate int Running();

        /// <summary>Ends the process on Mono, whose own end hangs now and then while threads of the pool
        /// wait.</summary>
        internal static void Leave(int status)
        {
            if (Type.GetType("Mono.Runtime") == null) return;
            Console.Out.Flush();
            Console.Error.Flush();
            Exit(status);
        }

        [DllImport("libc", EntryPoint = "_exit")]
        private static extern void Exit(int status);

        private static int CountOf(IntPtr signal) => Marshal.ReadInt32(signal, 4);

        [DllImport("MonoPosixHelper", EntryPoint = "Mono_Unix_UnixSignal_install")]
        private static extern IntPtr Install(int signal);

        [DllImport("MonoPosixHelper", EntryPoint = "Mono_Unix_UnixSignal_WaitAny")]
        private static extern int WaitAny(IntPtr[] signals, int count, int timeoutMs, Running isShuttingDown);

        /// <summary>.NET Core 3 and 5: the runtime ends the process when this returns.</summary>
        private static void Exit(Action drain, Task run) => AppDomain.CurrentDomain.ProcessExit += (sender, arguments) =>
        {
            if (run.IsCompleted) return;
            drain();
            run.Wait();
            Environment.ExitCode = 0;
        };
    }
}
